import { execFileSync } from 'node:child_process'
import { appendFileSync, chmodSync, lstatSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Observed, type Observing, observe } from '../../src/drift/observe.ts'
import { disk, Elsewhere, openRoot } from '../../src/drift/root.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { put } from './given.ts'

const later = () => Date.now() + 60_000
async function looking(files: { readonly [path: string]: string | Buffer }) {
  const path = tempFolder()
  put(path, files)
  const root = await openRoot(path)
  const kept: string[] = []
  const look = (name: string, more: Partial<Observing> = {}) =>
    observe(root, name, {
      now: later,
      keepBytes: 100,
      keep: async (_, digest) => {
        kept.push(digest)
        return true
      },
      ...more,
    })
  return { path, kept, look, full: (name: string) => join(path, name) }
}

describe('looking at a file', () => {
  it('tells its type, content, size and mode, and keeps what is not too large', async () => {
    const { look, kept, full } = await looking({ a: 'hello', big: 'x'.repeat(101) })
    chmodSync(full('a'), 0o755)
    expect(await look('a')).toMatchObject({ type: 'file', digest: digestOf('hello'), size: 5, mode: 0o755, kept: true })
    expect(await look('big')).toMatchObject({ digest: digestOf('x'.repeat(101)), kept: false })
    expect(kept).toEqual([digestOf('hello')])
  })

  it('finds nothing where nothing is, and nothing below a file', async () => {
    const { look } = await looking({ a: '' })
    expect([await look('b'), await look('a/b')]).toEqual([undefined, undefined])
  })

  it('takes a link for what it says, not for where it leads', async () => {
    const { look, full } = await looking({})
    symlinkSync('/etc/passwd', full('l'))
    expect(await look('l')).toMatchObject({ type: 'link', digest: digestOf('/etc/passwd') })
  })

  it('goes by the name that the folder knows where case does not count', async () => {
    const { path } = await looking({ README: 'x' })
    const root = await openRoot(path)
    const folding = { ...root, foldsCase: true, stat: (name: string) => root.stat(name.toUpperCase()) }
    const options = { now: later, keepBytes: 9, keep: async () => true }
    expect(await observe(folding, 'Readme', options)).toBeUndefined()
    expect((await observe(folding, 'README', options))?.digest).toBe(digestOf('x'))
  })

  it('gives up on a file that grows as fast as it is read', async () => {
    const { look, full } = await looking({ log: 'x'.repeat(101) })
    const { read } = disk
    let reads = 0
    vi.spyOn(disk, 'read').mockImplementation(((...args: Parameters<typeof read>) => {
      if (++reads > 100) throw new Error('it reads on and on')
      appendFileSync(full('log'), 'more')
      return read(...args)
    }) as typeof read)
    onTestFinished(() => void vi.restoreAllMocks())
    await expect(look('log')).rejects.toThrow(Elsewhere)
  })

  it('does not open a pipe or a folder', async () => {
    const { look, full } = await looking({ 'folder/x': '' })
    execFileSync('mkfifo', [full('pipe')])
    expect([(await look('pipe'))?.type, (await look('folder'))?.type]).toEqual(['other', 'folder'])
  })

  it('sees the same whether or not it was just listed in its folder', async () => {
    const { look, kept, full } = await looking({ a: 'hello', 'folder/x': '' })
    symlinkSync('/etc/passwd', full('link'))
    execFileSync('mkfifo', [full('pipe')])
    for (const name of ['a', 'folder', 'link', 'pipe', 'gone', 'a/b'])
      expect(await look(name, { listed: true })).toEqual(await look(name))
    expect(new Set(kept)).toEqual(new Set([digestOf('hello'), digestOf('/etc/passwd')]))
  })

  it('reads into the memory it is given', async () => {
    const { look, full } = await looking({ a: 'hello', big: 'x'.repeat(101) })
    const memory = Buffer.alloc(100)
    const space = (size: number) => memory.subarray(0, size)
    const seen = await look('a', { space, keep: async (bytes) => bytes.buffer === memory.buffer })
    expect([seen?.kept, memory.toString('utf8', 0, 5)]).toEqual([true, 'hello'])
    writeFileSync(full('a'), '')
    expect(await look('a', { space })).toMatchObject({ digest: digestOf(''), kept: true })
    expect(await look('big', { space })).toMatchObject({ digest: digestOf('x'.repeat(101)), kept: false })
  })

  it('does not read again what has the same times, and does when any of them differs', async () => {
    const { look, full } = await looking({ a: 'hello' })
    const known = { ...(await look('a'))!, digest: digestOf('not what is there') } as Observed
    expect((await look('a', { known }))?.digest).toBe(known.digest)
    for (const edit of [
      () => appendFileSync(full('a'), '!'),
      () => utimesSync(full('a'), 1, 1),
      () => {
        writeFileSync(full('b'), 'hello')
        renameSync(full('b'), full('a'))
      },
    ]) {
      const before = { ...(await look('a'))!, digest: digestOf('not what is there') } as Observed
      edit()
      expect((await look('a', { known: before }))?.digest).not.toBe(before.digest)
    }
  })

  it('reads again what was read so soon after it was written that a second write could have left the same times', async () => {
    const { look, full } = await looking({ a: 'first' })
    const early = (await look('a', { now: () => lstatSync(full('a')).mtimeMs + 1 }))!
    expect(early.racy).toBe(true)
    const same = { ...early, digest: digestOf('what was read then') } as Observed
    expect((await look('a', { known: same }))?.digest).toBe(digestOf('first'))
    expect((await look('a'))?.racy).toBeUndefined()
  })

  it('sees a write in the same tick, of the same size, with times set back', async () => {
    const { look, full } = await looking({ a: 'first' })
    const { mtimeMs, atimeMs } = lstatSync(full('a'))
    const known = (await look('a', { now: Date.now }))!
    writeFileSync(full('a'), 'other')
    utimesSync(full('a'), atimeMs / 1000, mtimeMs / 1000)
    expect((await look('a', { known }))?.digest).toBe(digestOf('other'))
  })
})
