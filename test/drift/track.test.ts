import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import { disk } from '../../src/drift/root.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Closed, InvalidInput, NotFound, Refused, TooLarge, Unavailable } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { validate } from '../../src/protocol/validate.ts'
import type { BornEvent, FindingRecord } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { BY, type Given, given, graphOf, META, put } from './given.ts'

const told = (findings: readonly FindingRecord[]) =>
  findings.map(({ what, path, from }) => (from ? `${what} ${from} ${path}` : `${what} ${path}`)).sort()
const nameIn = (line: string) => line.split(' ')[1]!
const scanned = async ({ tracker }: Given) => told((await tracker.scan()).findings)
const paths = (graph: ProjectGraph) =>
  [...graph.state.nodesOf('files')].flatMap((node) => (node.kind === 'file' ? [node.data.path] : [])).sort()
async function events(graph: ProjectGraph) {
  const found: BornEvent['event'][] = []
  for await (const entry of graph.store.read(graph.id)) for (const { event } of eventsIn(entry)) found.push(event)
  return found
}

describe('tracking a folder', () => {
  it('takes in everything that belongs, with its content, and finds nothing', async () => {
    const it = await given({ a: 'one', 'src/b': 'two', '.gitignore': 'out/\n', 'out/c': '' })
    expect(paths(it.graph)).toEqual(['.gitignore', 'a', 'src/b'])
    expect(it.graph.get('file', fileId('src/b'))?.data).toMatchObject({
      path: 'src/b',
      type: 'file',
      digest: digestOf('two'),
      size: 3,
      kept: true,
    })
    expect(await it.text('src/b')).toBe('two')
    expect([await scanned(it), (await events(it.graph)).map(({ event_family }) => event_family)]).toEqual([
      [],
      expect.not.arrayContaining(['external_integration']),
    ])
    await it.tracker.close()
  })

  it.each([
    ['after', 1e18, '9999-12-31T23:59:59.000000Z'],
    ['before', -1e18, '0000-01-01T00:00:00.000000Z'],
  ])('takes in what has a time %s all dates, as some file systems keep it', async (_, mtimeMs, mtime) => {
    const { fstat, lstat } = disk
    onTestFinished(() => void Object.assign(disk, { fstat, lstat }))
    disk.fstat = ((fd: number) => Object.assign(fstat(fd), { mtimeMs })) as typeof fstat
    disk.lstat = (async (path: string) => Object.assign(await lstat(path), { mtimeMs })) as unknown as typeof lstat
    const it = await given({ a: 'old' })
    expect(it.graph.get('file', fileId('a'))?.data).toMatchObject({ mtime, agreed: { mtime_ms: mtimeMs } })
    expect((await it.tracker.scan()).findings).toEqual([])
    await it.tracker.close()
  })

  it('knows only the digest of what is too large to keep', async () => {
    const it = await given({ big: 'x'.repeat(11), small: 'x'.repeat(10) }, { keepBytes: 10 })
    expect(it.graph.get('file', fileId('big'))?.data).toMatchObject({ kept: false, digest: digestOf('x'.repeat(11)) })
    expect(await it.graph.store.getBlob(digestOf('x'.repeat(11)))).toBeUndefined()
    expect(await it.text('small')).toBe('x'.repeat(10))
    await it.tracker.close()
  })

  it('knows only the digest of what the store does not take', async () => {
    const store = memoryBackend()
    const limit = 300 * 1024
    const putBlob = async (bytes: Uint8Array) => {
      if (bytes.length > limit) throw new TooLarge('the blob', bytes.length, limit, 'use another store')
      return store.putBlob(bytes)
    }
    const big = 'x'.repeat(limit + 1)
    const it = await given({ big, small: 'x' }, {}, { ...store, putBlob })
    expect(it.graph.get('file', fileId('big'))?.data).toMatchObject({ kept: false, digest: digestOf(big) })
    expect(await it.text('small')).toBe('x')
    put(it.root, { small: big })
    expect(await scanned(it)).toEqual(['modified small'])
    await it.tracker.close()
  })

  it('begins again when taking everything in was cut off', async () => {
    const root = tempFolder()
    put(root, Object.fromEntries(Array.from({ length: 2_400 }, (_, i) => [`f${i}`, String(i)])))
    const graph = await graphOf()
    const enough = new AbortController()
    const store = graph.store
    const commit = store.commit.bind(store)
    store.commit = async (write) => {
      await commit(write)
      if (paths(graph).length >= 500) enough.abort(new Error('killed'))
    }
    await expect(trackFiles(graph, { root, signal: enough.signal })).rejects.toThrow('killed')
    expect(paths(graph).length).toBeGreaterThan(0)
    expect(paths(graph).length).toBeLessThan(2_400)
    const tracker = await trackFiles(graph, { root })
    expect([paths(graph).length, tracker.findings()]).toEqual([2_400, []])
    await tracker.close()
  })

  it('keeps the content of many files and of large ones, each under its own digest', async () => {
    const large = Object.fromEntries([1, 2, 3].map((n) => [`large/${n}`, Buffer.alloc(4_000_000, n)]))
    const small = Object.fromEntries(Array.from({ length: 4_100 }, (_, i) => [`small/${i}`, `${i}`.repeat(i % 7)]))
    const { graph, tracker } = await given({ ...large, ...small })
    expect(paths(graph)).toHaveLength(4_103)
    for (const path of paths(graph)) {
      const { digest, kept } = graph.get('file', fileId(path))!.data
      const content = Buffer.from(large[path] ?? small[path]!)
      expect([path, kept, digest]).toEqual([path, true, digestOf(content)])
      expect(content.equals((await graph.store.getBlob(digest))!)).toBe(true)
    }
    await tracker.close()
  })

  it('finds, when it is opened again, what has changed meanwhile', async () => {
    const it = await given({ a: '1', b: '2', c: '3' })
    await it.tracker.close()
    put(it.root, { a: 'changed', d: 'new' })
    unlinkSync(join(it.root, 'c'))
    const again = await it.again()
    expect(told(again.tracker.findings())).toEqual(['added d', 'deleted c', 'modified a'])
    const third = await again.again()
    expect(told(third.tracker.findings())).toEqual(['added d', 'deleted c', 'modified a'])
    await third.tracker.close()
  })

  it('finds, when it is opened again, what the graph has come to believe meanwhile', async () => {
    const it = await given({ a: '1' })
    await it.tracker.close()
    const digest = await it.graph.store.putBlob(Buffer.from('by the graph'))
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest, size: 12 } }], BY)
    const again = await it.again()
    expect(told(again.tracker.findings())).toEqual(['modified a'])
    await again.tracker.close()
  })

  it('holds what is left out from now on against nothing, and leaves it in the graph as it was', async () => {
    const it = await given({ a: '1', 'node_modules/b': '2' }, { exclude: [] })
    put(it.root, { 'node_modules/b': '3' })
    expect((await it.tracker.scan()).findings).toMatchObject([{ path: 'node_modules/b' }])
    const later = await it.again({ exclude: ['**/node_modules'] })
    expect(later.tracker.findings()).toEqual([])
    expect(later.graph.get('file', fileId('node_modules/b'))?.data.digest).toBe(digestOf('2'))
  })

  it('works on a store that several processes share', async () => {
    const store = await sqliteBackend({ path: join(tempFolder(), 'state.db') })
    const it = await given({ a: '1' }, {}, store)
    put(it.root, { a: '2' })
    expect(await scanned(it)).toEqual(['modified a'])
    await it.tracker.close()
    await store.close()
  })
})

describe('a finding', () => {
  it('is told of every kind of change', async () => {
    const it = await given({
      changed: '1',
      gone: 'to be deleted',
      moved: 'to be renamed',
      linked: '4',
      moded: '5',
      foldered: '6',
    })
    put(it.root, { changed: 'x', added: 'new' })
    unlinkSync(join(it.root, 'gone'))
    renameSync(join(it.root, 'moved'), join(it.root, 'elsewhere'))
    unlinkSync(join(it.root, 'linked'))
    symlinkSync('changed', join(it.root, 'linked'))
    chmodSync(join(it.root, 'moded'), 0o755)
    unlinkSync(join(it.root, 'foldered'))
    mkdirSync(join(it.root, 'foldered'))
    expect(await scanned(it)).toEqual([
      'added added',
      'deleted gone',
      'mode_changed moded',
      'modified changed',
      'renamed moved elsewhere',
      'type_changed foldered',
      'type_changed linked',
    ])
    await it.tracker.close()
  })

  it('lies in the graph with its diff, its severity and both sides', async () => {
    const it = await given({ 'a.txt': 'one\ntwo\n' })
    put(it.root, { 'a.txt': 'one\n2\n' })
    await it.tracker.scan()
    expect(it.graph.get('finding', fileId('a.txt'))?.data).toMatchObject({
      what: 'modified',
      path: 'a.txt',
      severity: 'medium',
      diff: '--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n',
      lines_added: 1,
      lines_removed: 1,
      believed: { digest: digestOf('one\ntwo\n') },
      observed: { digest: digestOf('one\n2\n'), kept: true },
    })
    await it.tracker.close()
  })

  it('has no diff of what is binary or too large to keep, and keeps a long one in a blob', async () => {
    const it = await given(
      { binary: Buffer.from([0xff, 0xfe, 1]), nul: 'a\0b', long: 'x\n', big: '1' },
      { keepBytes: 300_000 },
    )
    put(it.root, {
      binary: Buffer.from([0xff, 0xfe, 2]),
      nul: 'a\0c',
      long: 'a line of some length\n'.repeat(9_000),
      big: 'y'.repeat(300_001),
    })
    const { findings } = await it.tracker.scan()
    const of = (path: string) => findings.find((finding) => finding.path === path)!
    expect([of('binary').diff, of('nul').diff, of('big').diff, of('long').diff]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
    expect((await it.tracker.diff(of('long')))?.length).toBeGreaterThan(64 * 1024)
    expect(of('long').lines_added).toBe(9_000)
    await it.tracker.close()
  })

  it('has no diff where it would be of more than a person reads, or of nothing', async () => {
    const it = await given({ most: 'x\n', more: 'x\n', moded: 'x\n' })
    put(it.root, { most: 'y'.repeat(1024 * 1024), more: 'y'.repeat(1024 * 1024 + 1) })
    chmodSync(join(it.root, 'moded'), 0o755)
    const { findings } = await it.tracker.scan()
    expect(findings.map(({ path, lines_added }) => [path, lines_added])).toEqual([
      ['moded', undefined],
      ['more', undefined],
      ['most', 1],
    ])
    await it.tracker.close()
  })

  it('is put on record, changed and closed among many with long diffs', async () => {
    const it = await given({})
    const all = (text: string) => Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`f${i}`, `${i} ${text}`]))
    put(it.root, all('x'.repeat(60_000)))
    expect((await it.tracker.scan()).findings).toHaveLength(300)
    put(it.root, all('\u0001'.repeat(1_300))) // six times as long in a journal
    expect((await it.tracker.scan()).findings).toHaveLength(300)
    expect((await it.tracker.reconcile('all', 'files')).map(({ outcome }) => outcome)).toEqual(
      Array(300).fill('accepted'),
    )
    await it.tracker.close()
  })

  it('is told on the bus as an external event in the protocol’s shape, once', async () => {
    const it = await given({ a: '1', b: 'to be renamed' })
    put(it.root, { a: '2' })
    renameSync(join(it.root, 'b'), join(it.root, 'c'))
    await it.tracker.scan()
    await it.tracker.scan()
    const seen = (await events(it.graph)).filter(({ event_family }) => event_family === 'external_integration')
    expect(seen.map(({ event_type }) => event_type)).toEqual(['file_update', 'file_update'])
    const payloads = seen.map(({ payload }) => validate('file-update-event', payload))
    expect(
      payloads.map(({ file_path, change_type, previous_path }) => [file_path, change_type, previous_path]),
    ).toEqual([
      ['a', 'modified', undefined],
      ['c', 'renamed', 'b'],
    ])
    await it.tracker.close()
  })

  it('passes when the file is put back, and its question with it', async () => {
    const it = await given({ a: '1' })
    put(it.root, { a: '2' })
    const [finding] = (await it.tracker.scan()).findings
    put(it.root, { a: '1' })
    expect(await scanned(it)).toEqual([])
    expect(it.graph.get('confirm', finding!.confirm_id!)?.data.status).toBe('cancelled')
    await it.tracker.close()
  })

  it('becomes another one when the file changes again, with a question of its own', async () => {
    const it = await given({ a: '1' })
    put(it.root, { a: '2' })
    const [first] = (await it.tracker.scan()).findings
    put(it.root, { a: '3' })
    const [second] = (await it.tracker.scan()).findings
    expect(second!.digest).not.toBe(first!.digest)
    expect(it.graph.get('confirm', first!.confirm_id!)?.data.status).toBe('cancelled')
    expect(it.graph.get('confirm', second!.confirm_id!)?.data.status).toBe('pending')
    await it.tracker.close()
  })

  it('is severe as the rules say', async () => {
    const it = await given({ 'src/a': '1', b: '2' }, { rules: [{ match: 'src/**', severity: 'critical' }] })
    put(it.root, { 'src/a': 'x', b: 'y' })
    const { findings } = await it.tracker.scan()
    expect(findings.map(({ path, severity }) => [path, severity]).sort()).toEqual([
      ['b', 'medium'],
      ['src/a', 'critical'],
    ])
    await it.tracker.close()
  })

  it('is none when both sides have come to the same by themselves, and a merge then starts from there', async () => {
    const it = await given({ a: '1\n' })
    const digest = await it.graph.store.putBlob(Buffer.from('2\n'))
    put(it.root, { a: '2\n' })
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest } }], BY)
    expect(await scanned(it)).toEqual([])
    expect(it.graph.get('file', fileId('a'))?.data.agreed?.digest).toBe(digest)
    await it.tracker.close()
  })
})

describe('noticing', () => {
  const settled = async (it: Given, wanted: readonly string[]) => {
    for (let i = 0; i < 200; i++) {
      await it.tracker.idle()
      const found = told(it.tracker.findings())
      if (JSON.stringify(found) === JSON.stringify(wanted)) return found
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    return told(it.tracker.findings())
  }
  const watched = (files: { readonly [path: string]: string }) => given(files, { watch: true, settleMs: 30 })

  it('sees changes as they happen, an editor’s save as one', async () => {
    const it = await watched({ a: '1', b: '2' })
    put(it.root, { '.a.swp': 'new', fresh: '' })
    renameSync(join(it.root, '.a.swp'), join(it.root, 'a'))
    expect(await settled(it, ['added fresh', 'modified a'])).toEqual(['added fresh', 'modified a'])
    const seen = (await events(it.graph)).filter(({ event_family }) => event_family === 'external_integration')
    expect(seen.length).toBe(2)
    await it.tracker.close()
  })

  it('sees what happens in a folder from when the ignore rules have come to let it in', async () => {
    const it = await watched({ '.gitignore': 'out/\n', 'out/a': '1', 'out/deep/b': '2' })
    put(it.root, { '.gitignore': '\n' })
    const before = ['added out/a', 'added out/deep/b', 'modified .gitignore']
    expect(await settled(it, before)).toEqual(before)
    await it.tracker.idle()
    put(it.root, { 'out/deep/c': '3' })
    const wanted = ['added out/a', 'added out/deep/b', 'added out/deep/c', 'modified .gitignore']
    expect(await settled(it, wanted)).toEqual(wanted)
    await it.tracker.close()
  })

  it('sees it also when a folder was replaced at the same time, as git does that changes branches', async () => {
    const it = await watched({ '.gitignore': 'out/\n', 'out/a': '1', 'src/b': '2' })
    renameSync(join(it.root, 'src'), join(it.root, 'lib'))
    put(it.root, { '.gitignore': '\n', 'src/c': '3' })
    const before = ['added out/a', 'added src/c', 'modified .gitignore', 'renamed src/b lib/b']
    expect(await settled(it, before)).toEqual(before)
    await it.tracker.idle()
    put(it.root, { 'out/d': '4' })
    const wanted = ['added out/a', 'added out/d', ...before.slice(1)]
    expect(await settled(it, wanted)).toEqual(wanted)
    await it.tracker.close()
  })

  it('sees what happens in new folders, renamed ones and deleted ones', async () => {
    const it = await watched({ 'src/a': '1', 'src/deep/b': '2', 'old/c': '3' })
    put(it.root, { 'new/er/x': 'x' })
    renameSync(join(it.root, 'src'), join(it.root, 'lib'))
    rmSync(join(it.root, 'old'), { recursive: true })
    const first = ['added new/er/x', 'deleted old/c', 'renamed src/a lib/a', 'renamed src/deep/b lib/deep/b']
    expect(await settled(it, first)).toEqual(first)
    put(it.root, { 'new/er/y': 'y', 'lib/deep/b': 'changed' })
    const then = [
      'added lib/deep/b',
      'added new/er/x',
      'added new/er/y',
      'deleted old/c',
      'deleted src/deep/b',
      'renamed src/a lib/a',
    ]
    expect(await settled(it, then)).toEqual(then)
    await it.tracker.close()
    expect(it.errors).toEqual([])
  })

  it('sees what happens in a folder that was put in the place of another, the root included', async () => {
    const it = await watched({ 'src/a': '1', 'src/deep/b': '2' })
    renameSync(join(it.root, 'src'), join(it.root, 'lib'))
    put(it.root, { 'src/deep/c': '3' })
    const first = ['added src/deep/c', 'renamed src/a lib/a', 'renamed src/deep/b lib/deep/b']
    expect(await settled(it, first)).toEqual(first)
    put(it.root, { 'src/d': '4', 'src/deep/e': '5' })
    const then = ['added src/d', 'added src/deep/c', 'added src/deep/e', ...first.slice(1)]
    expect(await settled(it, then)).toEqual(then)

    renameSync(it.root, `${it.root}-away`)
    put(it.root, { 'src/a': '1', 'src/deep/b': '2' })
    expect(await settled(it, [])).toEqual([])
    put(it.root, { 'src/deep/f': '6' })
    expect(await settled(it, ['added src/deep/f'])).toEqual(['added src/deep/f'])
    await it.tracker.close()
    rmSync(`${it.root}-away`, { recursive: true })
    expect(it.errors).toEqual([])
  })

  it('says that the root is gone, and takes nothing in it for deleted', async () => {
    const it = await watched({ a: '1', 'src/b': '2' })
    renameSync(it.root, `${it.root}-away`)
    await expect.poll(() => it.errors.length).toBeGreaterThan(0)
    await expect(it.tracker.look(['a'])).rejects.toThrow(Refused)
    await expect(it.tracker.observed(['a'])).rejects.toThrow(Refused)
    expect(it.errors.every((error) => error instanceof Refused)).toBe(true)
    renameSync(`${it.root}-away`, it.root)
    expect(await scanned(it)).toEqual([])
    await it.tracker.close()
  })

  it('reads the rules anew when an ignore file changes', async () => {
    const it = await watched({ a: '1' })
    put(it.root, { 'x.log': '', 'y.tmp': '' })
    expect(await settled(it, ['added x.log', 'added y.tmp'])).toEqual(['added x.log', 'added y.tmp'])
    put(it.root, { '.gitignore': '*.log\n' })
    expect(await settled(it, ['added .gitignore', 'added y.tmp'])).toEqual(['added .gitignore', 'added y.tmp'])
    await it.tracker.close()
  })

  it('looks where an event from outside says that something changed', async () => {
    const it = await given({ a: '1', 'src/b': '2', c: '3', d: 'what is moved' })
    put(it.root, { a: 'x', 'src/b': 'x', c: 'x' })
    renameSync(join(it.root, 'd'), join(it.root, 'e'))
    const tell = (payload: { file_path: string; previous_path?: string; workspace_root?: string }) =>
      it.graph.commit([], {
        ...BY,
        events: [
          {
            event: {
              event_type: 'file_update',
              event_family: 'external_integration',
              payload: { ...payload, change_type: 'modified', timestamp: '2026-01-01T00:00:00Z' },
            },
          },
        ],
      })
    await tell({ file_path: join(it.root, 'a') })
    await tell({ file_path: 'b', workspace_root: join(it.root, 'src') })
    await tell({ file_path: '../../etc/passwd' })
    await tell({ file_path: 'e', previous_path: 'd' })
    const expected = ['modified a', 'modified src/b', 'renamed d e']
    expect(await settled(it, expected)).toEqual(expected)

    const { lstat } = disk
    onTestFinished(() => void Object.assign(disk, { lstat }))
    const denied = Object.assign(new Error('permission denied'), { code: 'EACCES' }) // the superuser is never told that
    disk.lstat = ((...asked: Parameters<typeof lstat>) =>
      String(asked[0]).endsWith('/blind') ? Promise.reject(denied) : lstat(...asked)) as typeof lstat
    for (const [file_path, previous_path] of [
      ['c', 'blind'],
      ['f', 'x'.repeat(300)],
      ['g', 'no\0name'],
    ] as const) {
      put(it.root, { [file_path]: 'new' })
      await tell({ file_path, previous_path })
    }
    const more = ['added f', 'added g', 'modified a', 'modified c', 'modified src/b', 'renamed d e']
    expect(await settled(it, more)).toEqual(more)
    await it.tracker.close()
    expect(it.errors).toEqual([])
  })

  it('looks once an action lets go of what it was writing, and not before', async () => {
    const it = await given({ a: '1' })
    const writing = await it.tracker.writing(['a'])
    put(it.root, { a: 'half' })
    await it.tracker.look(['a'])
    expect(it.tracker.findings()).toEqual([])
    writing.release()
    await it.tracker.idle()
    expect(told(it.tracker.findings())).toEqual(['modified a'])
    await it.tracker.close()
  })

  it.each([
    ['a file', 'short', 'real/a'],
    ['a folder', 'way/a', 'real/a'],
    ['a folder, to what is not there yet', 'way/new/b', 'real/new/b'],
  ])('does not look at what an action writes through a link to %s, and believes it', async (_, name, place) => {
    const it = await given({ 'real/a': '1' })
    symlinkSync('real', join(it.root, 'way'))
    symlinkSync('real/a', join(it.root, 'short'))
    await it.tracker.reconcile(told(await it.tracker.look(['way', 'short'])).map(nameIn), 'files')
    const writing = await it.tracker.writing([name])
    put(it.root, { [place]: '2' })
    expect(told(await it.tracker.look([place, 'real/a']))).toEqual([]) // as the watch would have us do
    await writing.wrote([{ path: place, digest: digestOf('2'), size: 1 }], { action_id: 'x' })
    writing.release()
    await it.tracker.idle()
    expect(await scanned(it)).toEqual([])
    await it.tracker.close()
  })

  it('looks where the graph has come to believe something else', async () => {
    const it = await given({ a: '1' })
    const digest = await it.graph.store.putBlob(Buffer.from('2'))
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest } }], BY)
    expect(await settled(it, ['modified a'])).toEqual(['modified a'])
    await it.tracker.close()
  })

  it('goes on once a store that was away is back, and tells of it once', async () => {
    const store = memoryBackend()
    let away = true
    const clock = manualClock({ now: Date.now() })
    const read = (stream: string, from: Parameters<typeof store.read>[1] = {}) => {
      if (away && from.follow) throw new Unavailable('the store', 'try again')
      return store.read(stream, from)
    }
    const it = await given({ a: '1' }, { clock }, { ...store, read })
    await clock.advance(1000)
    away = false
    const digest = await it.graph.store.putBlob(Buffer.from('2'))
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest } }], BY)
    await clock.advance(10_000)
    expect(await settled(it, ['modified a'])).toEqual(['modified a'])
    expect(it.errors).toEqual([expect.any(Unavailable)])
    await it.tracker.close()
  })

  it('looks again at what was noticed while the store was away', async () => {
    const store = memoryBackend()
    let away = false
    const clock = manualClock({ now: Date.now() })
    const commit: typeof store.commit = async (write) => {
      if (away && JSON.stringify(write.entry).includes('"actor":"drift"'))
        throw new Unavailable('the store', 'try again')
      return store.commit(write)
    }
    const it = await given({ a: '1' }, { clock }, { ...store, commit })
    away = true
    const digest = await it.graph.store.putBlob(Buffer.from('2'))
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest } }], BY)
    await expect.poll(() => it.errors).toEqual([expect.any(Unavailable)])
    await it.tracker.idle()
    await clock.advance(1000)
    away = false
    await clock.advance(10_000)
    expect(await settled(it, ['modified a'])).toEqual(['modified a'])
    away = true
    await it.graph.commit([{ kind: 'node_delete', node: 'file', id: fileId('a') }], BY)
    await expect.poll(() => it.errors).toHaveLength(2)
    await it.tracker.close()
  })

  it('goes on where a trace was changed and not moved', async () => {
    const it = await given({ a: '1' })
    const trace_id = systemClock.uuid()
    const root_span = { trace_id, span_id: trace_id }
    const trace = { meta: META, trace_id, context_id: it.graph.id, root_span, status: 'running' }
    await it.graph.commit(takeApart('trace', trace), BY)
    const set = { finished_at: '2026-01-01T00:00:00Z' }
    await it.graph.commit([{ kind: 'node_update', node: 'trace', id: trace_id, set }], BY)
    const digest = await it.graph.store.putBlob(Buffer.from('2'))
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set: { digest } }], BY)
    expect(await settled(it, ['modified a'])).toEqual(['modified a'])
    expect(it.errors).toEqual([])
    await it.tracker.close()
  })

  it('scans on a schedule, by the clock it is given', async () => {
    const clock = manualClock({ now: Date.now() })
    const it = await given({ a: '1' }, { scanEveryMs: 60_000, clock })
    put(it.root, { a: '2' })
    await clock.advance(59_000)
    expect(told(it.tracker.findings())).toEqual([])
    await clock.advance(2_000)
    expect(await settled(it, ['modified a'])).toEqual(['modified a'])
    await it.tracker.close()
  })

  it('finds by a scan what no watching told', async () => {
    const it = await given({ a: '1' })
    appendFileSync(join(it.root, 'a'), '2')
    expect(told(it.tracker.findings())).toEqual([])
    expect(await scanned(it)).toEqual(['modified a'])
    await it.tracker.close()
  })

  it('does not take what a link leads to for what lay in the folder that the link has replaced', async () => {
    const it = await given({ 'src/a': '1', 'src/deep/b': '2', 'out/c': '3' })
    const outside = tempFolder()
    put(outside, { c: '3' })
    renameSync(join(it.root, 'src'), join(it.root, 'lib'))
    symlinkSync('lib', join(it.root, 'src'))
    rmSync(join(it.root, 'out'), { recursive: true })
    symlinkSync(outside, join(it.root, 'out'))
    const wanted = ['added out', 'added src', 'deleted out/c', 'renamed src/a lib/a', 'renamed src/deep/b lib/deep/b']
    expect(await scanned(it)).toEqual(wanted)
    await it.tracker.reconcile('all', 'graph')
    expect(await scanned(it)).toEqual([])
    expect(readdirSync(outside)).toEqual(['c'])
    await it.tracker.close()
  })

  it('takes nothing for deleted where the root, or a folder above it, has become a link', async () => {
    const above = tempFolder()
    put(above, { 'home/root/a': '1', 'home/root/src/b': '2' })
    const root = join(above, 'home/root')
    const tracker = await trackFiles(await graphOf(), { root })
    for (const moved of [root, join(above, 'home')]) {
      renameSync(moved, `${moved}-away`)
      symlinkSync(`${moved}-away`, moved)
      await expect(tracker.look(['a', 'src/b'])).rejects.toThrow(Refused)
      expect(tracker.findings()).toEqual([])
      unlinkSync(moved)
      renameSync(`${moved}-away`, moved)
    }
    expect(await tracker.look(['a', 'src/b'])).toEqual([])
    await tracker.close()
  })

  it('finds by a thorough scan what has changed though its times say that it has not', async () => {
    const later = { ...systemClock, now: () => systemClock.now() + 60_000 } // so that its times are believed
    const it = await given({ a: 'old' }, { clock: later })
    const { lstat, fstat } = disk
    onTestFinished(() => void Object.assign(disk, { lstat, fstat }))
    const before = statSync(join(it.root, 'a'))
    put(it.root, { a: 'new' })
    disk.lstat = (async (path: string) => (path.endsWith('/a') ? before : lstat(path))) as typeof lstat
    disk.fstat = ((fd: number) => (fstat(fd).ino === before.ino ? before : fstat(fd))) as typeof fstat
    expect(await scanned(it)).toEqual([])
    expect(told((await it.tracker.scan({ thorough: true })).findings)).toEqual(['modified a'])
    await it.tracker.close()
  })

  it('keeps by a thorough scan what may be kept by now, so that it can be brought back', async () => {
    const small = await given({ a: 'long' }, { keepBytes: 3 })
    const it = await small.again({ keepBytes: 4 })
    await it.tracker.scan({ thorough: true })
    expect(it.tracker.findings()).toEqual([])
    put(it.root, { a: '' })
    await it.tracker.scan()
    expect(await it.tracker.reconcile(['a'], 'graph')).toMatchObject([{ outcome: 'restored' }])
    await it.tracker.close()
  })

  it('looks at a path when asked to', async () => {
    const it = await given({ a: '1', b: '2' })
    put(it.root, { a: 'x', b: 'y' })
    expect(told(await it.tracker.look(['a']))).toEqual(['modified a'])
    await it.tracker.close()
  })
})

describe('bad input to a tracker', () => {
  it('is refused with what is wrong and where', async () => {
    const graph = await graphOf()
    const root = tempFolder()
    const problems = (options: object) =>
      trackFiles(graph, { root, ...options }).then(
        () => [],
        (error) => (error as InvalidInput).problems.map(({ path, rule }) => `${path} ${rule}`),
      )
    expect(await problems({ root: '' })).toEqual(['root type'])
    expect(await problems({ root: 7 })).toEqual(['root type'])
    expect(await problems({ keepBytes: -1, settleMs: 0, scanEveryMs: Number.NaN })).toEqual([
      'keepBytes type',
      'settleMs range',
      'scanEveryMs range',
    ])
    expect(await problems({ settleMs: 2 ** 31 })).toEqual(['settleMs range']) // Node would let it fire at once
    expect(await problems({ watch: 'yes', clock: {}, signal: 7, onFindings: 'me' })).toEqual([
      'watch type',
      'clock type',
      'signal type',
      'onFindings type',
    ])
    expect(await problems({ ignore: ['secret'] })).toEqual(['ignore extra_forbidden'])
    expect(await problems({ include: ['../x'] })).toEqual(['include[0] pattern'])
    expect(await problems({ rules: [{ match: '', strategy: 'guess', rejected: 'ask' }] })).toEqual([
      'rules[0].match pattern',
      'rules[0].strategy enum',
      'rules[0].rejected enum',
    ])
    expect(await problems({ rules: [{}, { match: '**', stratgy: 'graph' }, 7] })).toEqual([
      'rules[0].match pattern',
      'rules[1].stratgy extra_forbidden',
      'rules[2] type',
    ])
    for (const match of ['/etc/**', '../**', 'a/../b', 'generated/', 'a//b', 'a/./b'])
      expect(await problems({ rules: [{ match }], include: ['./a/**'] })).toEqual(['rules[0].match pattern'])
    expect(await problems({ exclude: ['dist/'], ignoreFiles: ['.gitignore'] })).toEqual(['exclude[0] pattern'])
    for (const name of ['./.gitignore', 'conf/.ignore', '..', ''])
      expect(await problems({ ignoreFiles: [name] })).toEqual(['ignoreFiles[0] pattern'])
    await expect(trackFiles(graph, { root: join(root, 'nowhere') })).rejects.toThrow(Refused)
    expect([...graph.state.nodesOf('files')]).toEqual([])
  })

  it('has no rule that none of its paths would come to', async () => {
    const { graph } = await given({})
    const told = (...rules: readonly object[]) =>
      trackFiles(graph, { root: tempFolder(), rules: rules as never }).then(
        (tracker) => tracker.close(),
        (error) => (error as InvalidInput).problems.map(({ path, message }) => `${path} ${message}`),
      )
    const secrets = { match: 'secrets/**', strategy: 'ask' }
    expect(await told({ match: '**', strategy: 'graph' }, secrets)).toEqual([
      'rules[1].match never counts: rules[0] matches all that it does',
    ])
    expect(await told(secrets, { match: '**/*.md', strategy: 'merge' }, { ...secrets, strategy: 'graph' })).toEqual([
      'rules[2].match never counts: rules[0] matches all that it does',
    ])
    for (const match of ['./**', './secrets/**'])
      expect(await told({ match, strategy: 'graph' }, secrets)).toEqual([
        'rules[1].match never counts: rules[0] matches all that it does',
      ])
    expect(await told(secrets, { match: '**', strategy: 'graph' })).toBeUndefined()
  })

  it('of its methods is refused too, and everything once it is closed', async () => {
    const it = await given({ a: '1' })
    await expect(it.tracker.look(['../a'])).rejects.toThrow(InvalidInput)
    await expect(it.tracker.look('a' as never)).rejects.toThrow(InvalidInput)
    put(it.root, { a: '2' })
    await it.tracker.scan()
    for (const which of ['a', undefined, [7], [''], [{}]] as never[])
      await expect(it.tracker.reconcile(which, 'graph')).rejects.toThrow('which is not valid')
    put(it.root, { a: '1' })
    await it.tracker.scan()
    await expect(it.tracker.scan({ folders: 'a' as never })).rejects.toThrow(InvalidInput)
    await expect(it.tracker.scan({ folders: ['../a'] })).rejects.toThrow(InvalidInput)
    await expect(it.tracker.mayWrite('/etc/passwd')).rejects.toThrow(InvalidInput)
    for (const nothing of [null, 7, 'a', [7], ['../a']] as never[]) {
      await expect(it.tracker.scan(nothing)).rejects.toThrow(InvalidInput)
      await expect(it.tracker.observed(nothing)).rejects.toThrow(InvalidInput)
      await expect(it.tracker.writing(nothing)).rejects.toThrow(InvalidInput)
    }
    await expect(it.tracker.scan({ thorough: 'yes' as never })).rejects.toThrow(InvalidInput)
    await expect(it.tracker.staleCheck('../a', undefined, {})).rejects.toThrow(InvalidInput)
    await expect(it.tracker.sawRead(7 as never, digestOf('1'), {})).rejects.toThrow(InvalidInput)
    await expect(it.tracker.diff(undefined as never)).rejects.toThrow(InvalidInput)
    await expect(it.tracker.reconcile(['a'], 'files')).rejects.toThrow(NotFound)
    await expect(it.tracker.reconcile('all', 'theirs' as never)).rejects.toThrow(InvalidInput)
    await it.tracker.close()
    await it.tracker.close()
  })

  it('is refused once it is closed, all that begins something', async () => {
    const it = await given({ a: '1' })
    await it.tracker.close()
    const taking = { files: [], changes: [], revision: it.graph.revision, run: 'run', ...BY }
    const late: { readonly [what: string]: () => Promise<unknown> } = {
      scan: () => it.tracker.scan(),
      look: () => it.tracker.look(['a']),
      reconcile: () => it.tracker.reconcile('all', 'files'),
      observed: () => it.tracker.observed(['a']),
      takeBack: () => it.tracker.takeBack(taking),
    }
    for (const [what, call] of Object.entries(late)) await expect(call(), what).rejects.toThrow(Closed)
  })

  it('is closed once what is in hand is done', async () => {
    const it = await given({ a: '1' })
    put(it.root, { b: '2' })
    const ends: string[] = []
    const scan = it.tracker.scan().then(() => ends.push('scanned'))
    await it.tracker.close()
    ends.push('closed')
    await scan
    expect(ends).toEqual(['scanned', 'closed'])
  })
})
