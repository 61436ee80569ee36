import { chmodSync, lstatSync, renameSync, symlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import { drifted } from './drifted.ts'
import { BY, put } from './given.ts'

type At = (path: string) => string

describe('`merge`: both sides’ changes since they last agreed', () => {
  const base = '1\n2\n3\n4\n5\n'

  it('go into both', async () => {
    const it = await drifted({ a: base }, (_, root) => put(root, { a: base.replace('1', 'disk') }), {
      graph: { a: base.replace('5', 'graph') },
    })
    expect(await it.settle('a', 'merge')).toBe('merged')
    const merged = 'disk\n2\n3\n4\ngraph\n'
    expect([await it.both('a'), await it.ends()]).toEqual([[merged, merged], []])
  })

  it('are the graph’s alone, or the disk’s alone', async () => {
    const it = await drifted({ a: 'a', b: 'b' }, (_, root) => put(root, { a: 'disk' }), { graph: { b: 'graph' } })
    expect([await it.settle('a', 'merge'), await it.settle('b', 'merge')]).toEqual(['accepted', 'restored'])
    expect([await it.both('a'), await it.both('b'), await it.ends()]).toEqual([
      ['disk', 'disk'],
      ['graph', 'graph'],
      [],
    ])
  })

  it('that overlap are asked about, with markers shown and kept out of the file', async () => {
    const it = await drifted({ a: 'x\n' }, (_, root) => put(root, { a: 'disk\n' }), { graph: { a: 'graph\n' } })
    expect(await it.settle('a', 'merge')).toBe('asked overlap')
    expect(it.read('a')).toBe('disk\n')
    const { confirm_id } = it.tracker.findings()[0]!
    const gate = [...it.graph.state.referrers('confirm', confirm_id!, 'GATES')][0]
    const shows = gate?.kind === 'gate' ? (gate.data.shows as { conflict: { marked: `sha256:${string}` } }) : undefined
    const marked = await it.graph.store.getBlob(shows!.conflict.marked)
    expect(Buffer.from(marked!).toString()).toBe('<<<<<<< graph\ngraph\n=======\ndisk\n>>>>>>> file\n')
    await it.tracker.close()
  })

  it.each([
    ['binary content', Buffer.from([0, 1]), Buffer.from([0, 2]).toString(), Buffer.from([0, 3]), 'asked binary'],
    ['text that is not UTF-8', Buffer.from([0xe4]), 'graph', Buffer.from([0xfc]), 'asked binary'],
    ['UTF-16', Buffer.from('a\nb\n', 'utf16le'), 'a\nb\ngraph\n', Buffer.from('d\nb\n', 'utf16le'), 'asked binary'],
  ])('of %s are asked about', async (_, old, graph, disk, outcome) => {
    const it = await drifted({ a: old }, (_at, root) => put(root, { a: disk }), { graph: { a: graph } })
    expect(await it.settle('a', 'merge')).toBe(outcome)
    await it.tracker.close()
  })

  it('of contents that are not kept are asked about', async () => {
    const it = await drifted({ a: 'o'.repeat(20) }, (_, root) => put(root, { a: 'd'.repeat(20) }), {
      keepBytes: 10,
      graph: { a: 'graph' },
    })
    expect(await it.settle('a', 'merge')).toBe('asked content_not_kept')
    await it.tracker.close()
  })

  it.each([
    ['renamed', (at: At) => renameSync(at('a'), at('b')), 'b'],
    ['given another mode', (at: At) => chmodSync(at('a'), 0o700), 'a'],
  ])('do not replace what is too large to be kept, also where it was only %s', async (_, change, path) => {
    const it = await drifted({ a: 'old' }, () => undefined, { keepBytes: 10 })
    put(it.root, { a: 'large'.repeat(3) })
    await it.tracker.scan()
    await it.settle('a', 'files')
    await it.believe('a', 'old') // as a snapshot that is restored
    change((name) => join(it.root, name))
    await it.tracker.scan()
    expect(await it.settle(path, 'merge')).toBe('asked content_not_kept')
    expect(it.read(path)).toBe('large'.repeat(3))
    await it.tracker.close()
  })

  it('keep the line ends of the side that changed them', async () => {
    const it = await drifted({ a: base }, (_, root) => put(root, { a: base.replaceAll('\n', '\r\n') }), {
      graph: { a: base.replace('5', 'graph') },
    })
    expect(await it.settle('a', 'merge')).toBe('merged')
    expect([it.read('a'), await it.ends()]).toEqual(['1\r\n2\r\n3\r\n4\r\ngraph\r\n', []])
  })

  it('of which both changed the line ends, differently from each other’s, are asked about', async () => {
    const mixed = base.replace('\n', '\r\n')
    const it = await drifted({ a: base }, (_, root) => put(root, { a: mixed }), {
      graph: { a: base.replaceAll('\n', '\r\n') },
    })
    expect(await it.settle('a', 'merge')).toBe('asked overlap')
    expect(await it.both('a')).toEqual([base.replaceAll('\n', '\r\n'), mixed])
    await it.tracker.close()
  })

  it('keep a byte order mark, and count one that was added as a change of the first line', async () => {
    const [marked, graph] = [`\uFEFF${base}`, base.replace('5', 'graph')]
    const it = await drifted(
      { a: marked, b: base, c: base },
      (_, root) => put(root, { a: marked.replace('1', 'disk'), b: marked, c: marked }),
      { graph: { a: `\uFEFF${graph}`, b: graph, c: base.replace('1', 'graph') } },
    )
    const outcomes = [await it.settle('a', 'merge'), await it.settle('b', 'merge'), await it.settle('c', 'merge')]
    expect(outcomes).toEqual(['merged', 'merged', 'asked overlap'])
    expect([it.read('a'), it.read('b')]).toEqual([`\uFEFF${graph.replace('1', 'disk')}`, `\uFEFF${graph}`])
    await it.tracker.close()
  })

  it('keep a missing last line end', async () => {
    const it = await drifted({ a: '1\n2\n3' }, (_, root) => put(root, { a: 'one\n2\n3' }), {
      graph: { a: '1\n2\nthree' },
    })
    expect(await it.settle('a', 'merge')).toBe('merged')
    expect([it.read('a'), await it.ends()]).toEqual(['one\n2\nthree', []])
  })

  it('one of them a deletion, are asked about; a deletion of what the other left alone is taken over', async () => {
    const it = await drifted(
      { a: 'a', b: 'b', c: 'c', d: 'd' },
      (at, root) => {
        put(root, { b: 'disk' })
        unlinkSync(at('a'))
        unlinkSync(at('c'))
      },
      { graph: { a: 'graph', b: null, d: null } },
    )
    const outcomes = await Promise.all(['a', 'b', 'c', 'd'].map((path) => it.settle(path, 'merge')))
    expect(outcomes).toEqual(['asked deleted_and_changed', 'asked deleted_and_changed', 'accepted', 'restored'])
    expect([await it.both('c'), await it.both('d')]).toEqual([
      [undefined, undefined],
      [undefined, undefined],
    ])
    expect(await it.ends()).toEqual(['deleted a', 'added b'])
  })

  it('take over what only one side has ever had', async () => {
    const it = await drifted({}, (_, root) => put(root, { disk: 'd', both: 'd' }), { graph: { graph: 'g', both: 'g' } })
    expect([
      await it.settle('disk', 'merge'),
      await it.settle('graph', 'merge'),
      await it.settle('both', 'merge'),
    ]).toEqual(['accepted', 'restored', 'asked both_added'])
    expect([await it.both('disk'), await it.both('graph')]).toEqual([
      ['d', 'd'],
      ['g', 'g'],
    ])
    await it.tracker.close()
  })

  it('follow a file that was renamed', async () => {
    const it = await drifted({ a: base }, (at) => renameSync(at('a'), at('b')), {
      graph: { a: base.replace('5', 'graph') },
    })
    expect(await it.settle('b', 'merge')).toBe('merged')
    const merged = base.replace('5', 'graph')
    expect([await it.both('b'), await it.both('a'), await it.ends()]).toEqual([
      [merged, merged],
      [undefined, undefined],
      [],
    ])
  })

  it('one of them a link, are asked about; a link that replaced what the graph left alone is taken over', async () => {
    const it = await drifted(
      { a: 'a', b: 'b', target: 't' },
      (at) => {
        for (const path of ['a', 'b']) {
          unlinkSync(at(path))
          symlinkSync('target', at(path))
        }
      },
      { graph: { a: 'graph' } },
    )
    expect([await it.settle('a', 'merge'), await it.settle('b', 'merge')]).toEqual(['asked type', 'accepted'])
    expect([await it.both('a'), await it.both('b'), await it.ends()]).toEqual([
      ['graph', '-> target'],
      ['target', '-> target'],
      ['type_changed a'],
    ])
  })

  it('of where a link leads are asked about when both sides have changed it', async () => {
    const it = await drifted({ old: 'o' }, (at) => symlinkSync('old', at('link')))
    expect(await it.settle('link', 'files')).toBe('accepted')
    unlinkSync(join(it.root, 'link'))
    symlinkSync('disk', join(it.root, 'link'))
    await it.believe('link', 'graph')
    await it.tracker.scan()
    expect(await it.settle('link', 'merge')).toBe('asked type')
    expect(await it.both('link')).toEqual(['graph', '-> disk'])
    await it.tracker.close()
  })

  it('of the mode that differ are asked about', async () => {
    const it = await drifted({ a: 'x' }, (at) => chmodSync(at('a'), 0o755))
    const set = { mode: 0o600 }
    await it.graph.commit([{ kind: 'node_update', node: 'file', id: fileId('a'), set }], BY)
    await it.tracker.scan()
    expect(await it.settle('a', 'merge')).toBe('asked mode')
    expect(lstatSync(join(it.root, 'a')).mode & 0o777).toBe(0o755)
    await it.tracker.close()
  })

  it('of the mode are merged beside those of the content', async () => {
    const it = await drifted({ a: 'x' }, (at) => chmodSync(at('a'), 0o755), { graph: { a: 'graph' } })
    expect(await it.settle('a', 'merge')).toBe('merged')
    expect([await it.both('a'), lstatSync(join(it.root, 'a')).mode & 0o777, await it.ends()]).toEqual([
      ['graph', 'graph'],
      0o755,
      [],
    ])
  })
})
