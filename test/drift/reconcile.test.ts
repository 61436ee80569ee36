import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileId } from '../../src/drift/compare.ts'
import type { Strategy } from '../../src/drift/policy.ts'
import type { TrackOptions } from '../../src/drift/tracker.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import { decide } from '../../src/psg/moves.ts'
import { BY, type Given, given, put } from './given.ts'

type Files = { readonly [path: string]: string | Buffer }

/** A folder that was tracked, then changed on the disk and in the graph, and scanned. */
async function drifted(
  files: Files,
  change: (at: (path: string) => string, root: string) => void,
  { graph = {}, ...options }: Partial<TrackOptions> & { graph?: { readonly [path: string]: string | null } } = {},
) {
  const it = await given(files, options)
  change((path) => join(it.root, path), it.root)
  for (const [path, content] of Object.entries(graph)) await believe(it, path, content)
  await it.tracker.scan()
  const read = (path: string) => {
    const full = join(it.root, path)
    if (!existsSync(full) && !lstatSync(full, { throwIfNoEntry: false })) return undefined
    return lstatSync(full).isSymbolicLink() ? `-> ${readlinkSync(full)}` : readFileSync(full, 'utf8')
  }
  return {
    ...it,
    read,
    /** What graph and disk have at a path, once it is settled. */
    async settle(path: string, strategy: Strategy) {
      const [result] = await it.tracker.reconcile([path], strategy)
      return [result!.outcome, ...(result!.reason ? [result!.reason] : [])].join(' ')
    },
    async both(path: string) {
      return [await it.text(path), read(path)]
    },
    async ends() {
      const { findings } = await it.tracker.scan()
      await it.tracker.close()
      expect(it.errors).toEqual([])
      expect(await it.graph.verify()).toEqual([])
      return findings.map(({ what, path }) => `${what} ${path}`)
    },
  }
}

/** The graph comes to believe something without the disk. */
async function believe({ graph }: Given, path: string, content: string | null): Promise<void> {
  const id = fileId(path)
  if (content === null) return void (await graph.commit([{ kind: 'node_delete', node: 'file', id }], BY))
  const digest = await graph.store.putBlob(Buffer.from(content))
  const data = { digest, size: content.length, kept: true }
  if (graph.get('file', id)) await graph.commit([{ kind: 'node_update', node: 'file', id, set: data }], BY)
  else {
    const node = { ...data, path, type: 'file' as const, mode: 0o644, mtime: '2026-01-01T00:00:00.000000Z' }
    await graph.commit([{ kind: 'node_add', node: 'file', id, data: node }], BY)
  }
}

describe('`files`: what is on the disk is accepted', () => {
  it.each([
    ['a new file', {}, { a: 'new' }, 'new'],
    ['a changed file', { a: 'old' }, { a: 'new' }, 'new'],
    ['a binary file', { a: 'old' }, { a: Buffer.from([0xff, 0]) }, Buffer.from([0xff, 0]).toString()],
  ] as const)('%s', async (_, files, change, content) => {
    const it = await drifted(files as Files, (_at, root) => put(root, change as Files))
    expect(await it.settle('a', 'files')).toBe('accepted')
    expect((await it.both('a'))[0]).toBe(content)
    expect(await it.ends()).toEqual([])
  })

  it('a deleted file', async () => {
    const it = await drifted({ a: 'old' }, (at) => unlinkSync(at('a')))
    expect(await it.settle('a', 'files')).toBe('accepted')
    expect([await it.both('a'), await it.ends()]).toEqual([[undefined, undefined], []])
  })

  it('a renamed file, also where names differ in case only', async () => {
    const it = await drifted({ 'Readme.md': 'text' }, (at) => renameSync(at('Readme.md'), at('README.md')))
    expect(it.tracker.findings().map(({ what, from, path }) => [what, from, path])).toEqual([
      ['renamed', 'Readme.md', 'README.md'],
    ])
    expect(await it.settle('README.md', 'files')).toBe('accepted')
    expect([await it.both('README.md'), await it.text('Readme.md'), await it.ends()]).toEqual([
      ['text', 'text'],
      undefined,
      [],
    ])
  })

  it('a file that became a link, and one that became a folder', async () => {
    const it = await drifted({ l: 'x', d: 'y' }, (at, root) => {
      unlinkSync(at('l'))
      symlinkSync('/somewhere/else', at('l'))
      unlinkSync(at('d'))
      put(root, { 'd/inner': 'z' })
    })
    await it.tracker.reconcile('all', 'files')
    expect(it.graph.get('file', fileId('l'))?.data).toMatchObject({ type: 'link', digest: digestOf('/somewhere/else') })
    expect([await it.text('d'), await it.text('d/inner'), await it.ends()]).toEqual([undefined, 'z', []])
  })

  it('a changed mode, and a file that became a pipe', async () => {
    const it = await drifted({ m: 'x', p: 'y' }, (at) => {
      chmodSync(at('m'), 0o700)
      unlinkSync(at('p'))
      execFileSync('mkfifo', [at('p')])
    })
    await it.tracker.reconcile('all', 'files')
    expect([it.graph.get('file', fileId('m'))?.data.mode, await it.text('p'), await it.ends()]).toEqual([
      0o700,
      undefined,
      [],
    ])
  })

  it('hundreds of changes at once, in several commits', async () => {
    const files = (content: string) =>
      Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`d${i % 9}/f${i}`, `${content} ${i}`]))
    const it = await drifted(files('old'), (_, root) => put(root, files('new')))
    const results = await it.tracker.reconcile('all', 'files')
    expect([results.length, await it.text('d1/f1'), await it.ends()]).toEqual([600, 'new 1', []])
  })
})

describe('`graph`: the disk becomes what the graph believes', () => {
  it('a changed file, with its mode', async () => {
    const it = await drifted({ a: 'old' }, (at, root) => {
      put(root, { a: 'new' })
      chmodSync(at('a'), 0o777)
    })
    expect(await it.settle('a', 'graph')).toBe('restored')
    expect([await it.both('a'), lstatSync(join(it.root, 'a')).mode & 0o777]).toEqual([['old', 'old'], 0o644])
    expect(await it.ends()).toEqual([])
  })

  it('a deleted file, with the folders it was in', async () => {
    const it = await drifted({ 'x/y/a': 'old', keep: '' }, (at) => rmSync(at('x'), { recursive: true }))
    expect(await it.settle('x/y/a', 'graph')).toBe('restored')
    expect([await it.both('x/y/a'), await it.ends()]).toEqual([['old', 'old'], []])
  })

  it('a file that nobody knows: it goes, and its content stays in the store', async () => {
    const it = await drifted({}, (_, root) => put(root, { a: 'new' }))
    expect(await it.settle('a', 'graph')).toBe('restored')
    expect([await it.both('a'), await it.ends()]).toEqual([[undefined, undefined], []])
    expect(await it.graph.store.getBlob(digestOf('new'))).toBeDefined()
  })

  it('a renamed file goes back under its name, as the same file', async () => {
    const it = await drifted({ 'a/b': 'text' }, (at) => renameSync(at('a/b'), at('c')))
    const { ino } = lstatSync(join(it.root, 'c'))
    expect(await it.settle('c', 'graph')).toBe('restored')
    expect([await it.both('a/b'), lstatSync(join(it.root, 'a/b')).ino, existsSync(join(it.root, 'c'))]).toEqual([
      ['text', 'text'],
      ino,
      false,
    ])
    expect(await it.ends()).toEqual([])
  })

  it('a file that became a link or an empty folder, but not one that became a folder with something in it, or a pipe', async () => {
    const it = await drifted({ l: 'l', e: 'e', f: 'f', p: 'p' }, (at, root) => {
      for (const path of ['l', 'e', 'f', 'p']) unlinkSync(at(path))
      symlinkSync('/etc/passwd', at('l'))
      mkdirSync(at('e'))
      put(root, { 'f/inner': 'mine' })
      execFileSync('mkfifo', [at('p')])
    })
    expect([await it.settle('l', 'graph'), await it.settle('e', 'graph')]).toEqual(['restored', 'restored'])
    expect([await it.settle('f', 'graph'), await it.settle('p', 'graph')]).toEqual([
      'refused in_the_way',
      'refused not_a_file',
    ])
    expect([it.read('l'), it.read('e'), it.read('f/inner')]).toEqual(['l', 'e', 'mine'])
    expect(await it.ends()).toEqual(['type_changed f', 'added f/inner', 'type_changed p'])
  })

  it('everything together, so that what is in the way goes first', async () => {
    const it = await drifted({ f: 'f', 'd/x': 'x' }, (at, root) => {
      unlinkSync(at('f'))
      put(root, { 'f/deep/inner': 'mine' })
      rmSync(at('d'), { recursive: true })
      put(root, { d: 'a file now' })
    })
    const results = await it.tracker.reconcile('all', 'graph')
    expect(results.map(({ outcome }) => outcome)).toEqual(['restored', 'restored', 'restored', 'restored'])
    expect([it.read('f'), it.read('d/x'), await it.ends()]).toEqual(['f', 'x', []])
  })

  it('not what it does not have, and not over what it could not give back', async () => {
    const it = await drifted(
      { big: 'x'.repeat(20), small: 's' },
      (_, root) => put(root, { big: 'y', small: 'z'.repeat(20), new: 'n'.repeat(20) }),
      {
        keepBytes: 10,
      },
    )
    expect([
      await it.settle('big', 'graph'),
      await it.settle('small', 'graph'),
      await it.settle('new', 'graph'),
    ]).toEqual(['refused content_not_kept', 'refused would_be_lost', 'refused would_be_lost'])
    expect([it.read('big'), it.read('small'), it.read('new')]).toEqual(['y', 'z'.repeat(20), 'n'.repeat(20)])
    await it.tracker.close()
  })

  it('makes no link that leads out of the root', async () => {
    const it = await drifted({}, (at) => symlinkSync('/etc/passwd', at('l')))
    await it.settle('l', 'files')
    unlinkSync(join(it.root, 'l'))
    await it.tracker.scan()
    expect(await it.settle('l', 'graph')).toBe('refused link_leaves_root')
    expect(it.read('l')).toBeUndefined()
    await it.tracker.close()
  })
})

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

  it('keep the line ends of the side that changed them', async () => {
    const it = await drifted({ a: base }, (_, root) => put(root, { a: base.replaceAll('\n', '\r\n') }), {
      graph: { a: base.replace('5', 'graph') },
    })
    expect(await it.settle('a', 'merge')).toBe('merged')
    expect([it.read('a'), await it.ends()]).toEqual(['1\r\n2\r\n3\r\n4\r\ngraph\r\n', []])
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

describe('`ask`: people decide', () => {
  const answer = async (it: Given, path: string, status: 'approved' | 'rejected') => {
    const { confirm_id } = it.tracker.findings().find((finding) => finding.path === path)!
    await it.graph.find('confirm', confirm_id!)
    await it.graph.commit(decide(it.graph, confirm_id!, { status, decided_by_role: 'owner' }), {
      actor: 'owner',
      reason: status,
    })
  }
  const until = async (it: Given, done: () => boolean) => {
    for (let i = 0; i < 200 && !done(); i++) {
      await new Promise((resolve) => setTimeout(resolve, 10))
      await it.tracker.idle()
    }
  }

  it('is what happens where no rule says otherwise, and overwrites nothing', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const [finding] = it.tracker.findings()
    const confirm = it.graph.get('confirm', finding!.confirm_id!)!.data
    expect(confirm).toMatchObject({ target_type: 'other', target_id: finding!.finding_id, status: 'pending' })
    expect([it.read('a'), await it.text('a')]).toEqual(['new', 'old'])
    await it.tracker.close()
  })

  it('accepts the file when they approve', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    await answer(it, 'a', 'approved')
    await until(it, () => it.tracker.findings().length === 0)
    expect([await it.both('a'), await it.ends()]).toEqual([['new', 'new'], []])
  })

  it('leaves both as they are when they reject, and asks again when the file changes again', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    await answer(it, 'a', 'rejected')
    await until(it, () => it.tracker.findings()[0]?.declined === true)
    await it.tracker.scan()
    expect([it.tracker.findings()[0]?.declined, await it.both('a')]).toEqual([true, ['old', 'new']])
    put(it.root, { a: 'newer' })
    await it.tracker.scan()
    expect(it.tracker.findings()[0]?.declined).toBeUndefined()
    await it.tracker.close()
  })

  it('restores the file when they reject, where a rule says that this is what it means', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }), {
      rules: [{ match: '**', strategy: 'ask', rejected: 'graph' }],
    })
    await answer(it, 'a', 'rejected')
    await until(it, () => it.tracker.findings().length === 0)
    expect([await it.both('a'), await it.ends()]).toEqual([['old', 'old'], []])
  })

  it('waits over a restart, and takes an answer in that came meanwhile', async () => {
    const it = await drifted({ a: 'old', b: 'old' }, (_, root) => put(root, { a: 'new', b: 'new' }))
    await it.tracker.close()
    await answer(it, 'a', 'approved')
    const again = await it.again()
    expect(again.tracker.findings().map(({ path }) => path)).toEqual(['b'])
    expect([await again.text('a'), await again.text('b')]).toEqual(['new', 'old'])
    await answer(again, 'b', 'approved')
    await until(again, () => again.tracker.findings().length === 0)
    expect(await again.text('b')).toBe('new')
    await again.tracker.close()
  })

  it('does not use an approval for what has changed since', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'seen by them' }))
    await it.tracker.close()
    await answer(it, 'a', 'approved')
    put(it.root, { a: 'not seen by them' })
    const again = await it.again()
    expect([again.tracker.findings().length, await again.text('a')]).toEqual([1, 'old'])
    await again.tracker.close()
  })

  it('uses an approval once', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const { confirm_id } = it.tracker.findings()[0]!
    await answer(it, 'a', 'approved')
    await until(it, () => it.tracker.findings().length === 0)
    const gate = [...it.graph.state.referrers('confirm', confirm_id!, 'GATES')][0]
    expect(gate?.kind === 'gate' && gate.data.used_by).toBeTruthy()
    put(it.root, { a: 'old' })
    await it.tracker.scan()
    put(it.root, { a: 'newest' })
    await it.tracker.scan()
    expect(it.tracker.findings().map(({ path }) => path)).toEqual(['a'])
    await it.tracker.close()
  })

  it('withdraws its question when the finding is settled by hand', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const { confirm_id } = it.tracker.findings()[0]!
    await it.settle('a', 'graph')
    expect(it.graph.get('confirm', confirm_id!)?.data.status).toBe('cancelled')
    await it.tracker.close()
  })

  it('asks again, and says why, when what they decided cannot be done', async () => {
    const it = await drifted(
      { f: 'f' },
      (at, root) => {
        unlinkSync(at('f'))
        put(root, { 'f/inner': 'mine' })
      },
      { rules: [{ match: '**', strategy: 'ask', rejected: 'graph' }] },
    )
    const asked = it.tracker.findings().find(({ path }) => path === 'f')!.confirm_id
    await answer(it, 'f', 'rejected')
    const now = () => it.tracker.findings().find(({ path }) => path === 'f')!.confirm_id
    await until(it, () => now() !== asked)
    const gate = [...it.graph.state.referrers('confirm', now()!, 'GATES')][0]
    expect(gate?.kind === 'gate' && gate.data.shows?.conflict).toEqual({ reason: 'in_the_way' })
    await it.tracker.close()
  })
})

describe('rules', () => {
  it('settle by the first pattern that matches, as soon as something is noticed', async () => {
    const it = await drifted(
      { 'docs/a': 'old', 'src/b': 'old', c: 'old' },
      (_, root) => put(root, { 'docs/a': 'new', 'src/b': 'new', c: 'new' }),
      {
        rules: [
          { match: 'docs/**', strategy: 'files' },
          { match: 'src/**', strategy: 'graph' },
          { match: '**/a', strategy: 'graph' },
        ],
      },
    )
    expect([await it.both('docs/a'), await it.both('src/b'), await it.both('c')]).toEqual([
      ['new', 'new'],
      ['old', 'old'],
      ['old', 'new'],
    ])
    expect(await it.ends()).toEqual(['modified c'])
  })

  it('that came later settle what was found before', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    const again = await it.again({ rules: [{ match: '**', strategy: 'files' }] })
    expect([again.tracker.findings(), await again.text('a')]).toEqual([[], 'new'])
    await again.tracker.close()
  })

  it('leave a graph_update behind that says what was reconciled, and no event of our own making', async () => {
    const it = await drifted({ a: 'old' }, (_, root) => put(root, { a: 'new' }))
    await it.settle('a', 'files')
    const told: [unknown, unknown][] = []
    for await (const { body } of it.graph.store.read(it.graph.id))
      for (const { event } of (body as unknown as EntryBody).events)
        told.push([event.event_family, (event.payload as { reason?: string } | undefined)?.reason])
    expect(told.at(-1)).toEqual(['graph_update', 'reconciled by hand: files'])
    expect(new Set(told.map(([family]) => family))).toEqual(
      new Set(['graph_update', 'external_integration', 'pipeline_stage']),
    )
    expect(readdirSync(it.root)).toEqual(['a'])
    await it.tracker.close()
  })
})
