import { appendFileSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { disk } from '../../src/drift/root.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { Refused } from '../../src/protocol/errors.ts'
import { mplpHere } from '../cli/here.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { given, graphOf, put } from './given.ts'

/** From now on a call of the disk fails for paths that end so; the superuser is never told that by the system itself. */
function refusing(call: 'open' | 'lstat', end: string, code = 'EACCES'): void {
  const asked = disk[call] as (path: string, ...rest: never[]) => Promise<unknown>
  const failing = (path: string, ...rest: never[]) =>
    path.endsWith(end) ? Promise.reject(Object.assign(new Error(code), { code })) : asked(path, ...rest)
  Object.assign(disk, { [call]: failing })
}
const real = { ...disk }
const readableAgain = () => Object.assign(disk, real)
afterEach(readableAgain)

it('lists what it may not read, and says nothing else of it', async () => {
  const it = await given({ secret: 's', open: 'o' })
  put(it.root, { secret: 'other', open: 'other' })
  refusing('open', '/secret')
  const { findings, unreadable } = await it.tracker.scan()
  expect(findings.map(({ path }) => path)).toEqual(['open'])
  expect(unreadable).toEqual([{ path: 'secret', code: 'EACCES' }])
  readableAgain()
  expect((await it.tracker.scan()).findings.map(({ path }) => path)).toEqual(['open', 'secret'])
  await it.tracker.close()
})

it('lists a folder whose rules it may not read, and a file that it may not look at, and goes on with the rest', async () => {
  const it = await given({ 'sub/.gitignore': 'x', 'sub/a': '1', 'blind/b': '1', open: 'o' })
  put(it.root, { 'sub/a': 'other', open: 'other' })
  refusing('open', '/.gitignore')
  refusing('lstat', '/b')
  const { findings, unreadable } = await it.tracker.scan()
  expect(findings.map(({ path }) => path)).toEqual(['open'])
  expect(unreadable).toEqual(
    expect.arrayContaining([
      { path: 'sub', code: 'EACCES' },
      { path: 'blind/b', code: 'EACCES' },
    ]),
  )
  await expect(it.tracker.mayWrite('sub/a')).rejects.toThrow(Refused)
  readableAgain()
  expect((await it.tracker.scan()).findings.map(({ path }) => path)).toEqual(['open', 'sub/a'])
  await it.tracker.close()
})

it('lists a folder whose rules are longer than anybody writes them, and writes nothing there', async () => {
  const it = await given({ 'sub/a': '1', open: 'o' })
  put(it.root, { 'sub/.gitignore': '', 'sub/a': 'other', open: 'other' })
  truncateSync(join(it.root, 'sub/.gitignore'), 6 * 1024 ** 3) // of which nothing lies on the disk
  const { findings, unreadable } = await it.tracker.scan()
  expect([findings.map(({ path }) => path), unreadable]).toEqual([['open'], [{ path: 'sub', code: 'EFBIG' }]])
  await expect(it.tracker.mayWrite('sub/a')).rejects.toThrow(Refused)
  put(it.root, { '.gitignore': 'a\n'.repeat(200_000) })
  await expect(it.tracker.scan()).rejects.toThrow(Refused)
  await it.tracker.close()
})

it('lists a file that changes each time while it is read: nobody can say that graph and disk agree', async () => {
  const it = await given({ log: '', a: '1' })
  const { read } = disk
  disk.read = (async (...asked: Parameters<typeof read>) => {
    appendFileSync(join(it.root, 'log'), 'line\n')
    return read(...asked)
  }) as typeof read
  put(it.root, { log: 'line\n' })
  expect(await it.tracker.scan()).toMatchObject({ findings: [], unreadable: [{ path: 'log', code: 'EBUSY' }] })
  readableAgain()
  expect(await it.tracker.scan()).toMatchObject({ findings: [{ path: 'log' }], unreadable: [] })
  await it.tracker.close()
})

it('takes a socket that is called like rules for none', async () => {
  const it = await given({ 'sub/a': '1' })
  const server = createServer()
  await new Promise<void>((listens) => server.listen(join(it.root, 'sub/.gitignore'), listens))
  put(it.root, { 'sub/a': 'other' })
  expect(await it.tracker.scan()).toMatchObject({ findings: [{ path: 'sub/a' }], unreadable: [] })
  expect(await it.tracker.mayWrite('sub/b')).toBe(true)
  await it.tracker.close()
  await new Promise((closed) => server.close(closed))
})

it.each(['EACCES', 'EPERM', 'EIO', 'ENOTCONN', 'ESTALE'])(
  'takes in what it can read, and lists later what it could not: %s',
  async (code) => {
    const root = tempFolder()
    put(root, { broken: 'b', whole: 'w' })
    refusing('open', '/broken', code)
    const tracker = await trackFiles(await graphOf(), { root })
    expect(await tracker.scan()).toMatchObject({ findings: [], unreadable: [{ path: 'broken', code }] })
    await tracker.close()
  },
)

it('opens all the same where rules have become unreadable beside a file that has drifted', async () => {
  const before = await given({ 'sub/.gitignore': 'x', 'sub/a': '1', open: 'o' })
  put(before.root, { 'sub/a': 'other' })
  await before.tracker.scan()
  refusing('open', '/.gitignore')
  const { tracker } = await before.again()
  const { findings, unreadable } = await tracker.scan()
  expect(findings).toMatchObject([{ what: 'modified', path: 'sub/a' }])
  expect(unreadable).toContainEqual({ path: 'sub', code: 'EACCES' })
  await tracker.close()
})

it('opens all the same where a folder is mounted that does not answer, and one of its files has drifted', async () => {
  const it = await given({ 'mount/a': '1', open: 'o' })
  put(it.root, { 'mount/a': 'other' })
  await it.tracker.scan()
  refusing('open', '/mount', 'ENOTCONN')
  const again = await it.again()
  put(it.root, { open: 'other' })
  const { findings, unreadable } = await again.tracker.scan()
  expect(findings.map(({ path }) => path)).toEqual(['mount/a', 'open'])
  expect(unreadable).toContainEqual({ path: 'mount', code: 'ENOTCONN' })
  await again.tracker.close()
})

it('looks into the folders it is asked for, though one of them is shut', async () => {
  const it = await given({ a: '1' })
  put(it.root, { 'shut/x': '1', 'open/y': '2' })
  refusing('open', '/shut')
  const { findings, unreadable } = await it.tracker.scan({ folders: ['shut', 'open'] })
  expect(findings.map(({ path }) => path)).toEqual(['open/y'])
  expect(unreadable).toEqual([{ path: 'shut', code: 'EACCES' }])
  await it.tracker.close()
})

it('lets nobody write against rules that it could not read for a moment', async () => {
  const it = await given({ 'sub/.gitignore': 'x', 'sub/a': '1' })
  refusing('open', '/sub', 'EMFILE')
  expect(await it.tracker.scan({ folders: ['sub'] })).toMatchObject({ unreadable: [{ path: 'sub', code: 'EMFILE' }] })
  readableAgain()
  expect(await it.tracker.mayWrite('sub/x')).toBe(false)
  await it.tracker.close()
})

it('is told to who scans by the command line: that graph and files agree says nothing of it', async () => {
  const root = tempFolder()
  put(root, { secret: 's', open: 'o' })
  refusing('open', '/secret')
  expect(await mplpHere(root, ['drift', 'scan', '--store', 'memory:'])).toEqual({
    code: 0,
    out: 'graph and files agree\n',
    err: 'mplp: secret cannot be read (EACCES): nothing is said of it\n',
  })
})

it.runIf(process.platform === 'linux')('is told by the command line in words, where a name is not UTF-8', async () => {
  const root = tempFolder()
  writeFileSync(Buffer.from(join(root, 'M\xfcller'), 'latin1'), 'x')
  expect(await mplpHere(root, ['drift', 'scan', '--store', 'memory:'])).toMatchObject({
    code: 0,
    err: 'mplp: M\uFFFDller stands for a name that is not UTF-8: nothing is said of it\n',
  })
})
