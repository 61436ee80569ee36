import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { compare, fileId } from '../../src/drift/compare.ts'
import type { Observed } from '../../src/drift/observe.ts'
import { agreedOn, recordOf, resolve } from '../../src/drift/reconcile.ts'
import type { Reconciled } from '../../src/drift/settle.ts'
import type { TrackOptions } from '../../src/drift/tracker.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { FindingRecord } from '../../src/psg/change.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { failingListeners } from '../support/failing-listeners.ts'
import { drifted, type Files } from './drifted.ts'
import { given, put, seen } from './given.ts'

it('a rule settles with a later scan what was in its way before', async () => {
  const told: string[] = []
  const it = await drifted({ 'd/a': 'old' }, () => undefined, {
    rules: [{ match: '**', strategy: 'graph' }],
    onReconciled: (results) => told.push(...results.map(({ outcome, reason = '' }) => `${outcome} ${reason}`)),
  })
  rmSync(join(it.root, 'd'), { recursive: true })
  execFileSync('mkfifo', [join(it.root, 'd')])
  await it.tracker.scan()
  unlinkSync(join(it.root, 'd'))
  await it.tracker.look(['elsewhere'])
  expect([told, it.read('d/a')]).toEqual([['refused in_the_way'], undefined])
  await it.tracker.scan()
  expect([told, it.read('d/a')]).toEqual([['refused in_the_way', 'restored '], 'old'])
  expect(await it.ends()).toEqual([])
})

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

  it('a file that has taken the name of its own folder, and one that has taken the name of another one’s', async () => {
    const it = await drifted({ 'd/x': 'own', 'e/y': 'other', f: 'third' }, (at) => {
      renameSync(at('d/x'), at('aside'))
      rmSync(at('d'), { recursive: true })
      renameSync(at('aside'), at('d'))
      renameSync(at('e/y'), at('b')) // before `e`, by name
      rmSync(at('e'), { recursive: true })
      renameSync(at('f'), at('e'))
    })
    const settled = await it.tracker.reconcile('all', 'graph')
    expect(settled.map(({ finding, outcome }) => `${finding.from} ${finding.path} ${outcome}`).sort()).toEqual([
      'd/x d restored',
      'e/y b restored',
      'f e restored',
    ])
    expect([it.read('d/x'), it.read('e/y'), it.read('f')]).toEqual(['own', 'other', 'third'])
    expect([readdirSync(it.root).sort(), await it.ends()]).toEqual([['d', 'e', 'f'], []])
  })

  it('a file that became a folder, and the one that was renamed into it while the graph changed it', async () => {
    const files = { a: 'a', b: 'b' }
    const move = (at: (path: string) => string) => {
      unlinkSync(at('a'))
      mkdirSync(at('a'))
      renameSync(at('b'), at('a/b'))
    }
    const it = await drifted(files, move, { graph: { b: 'changed' } })
    const results = await it.tracker.reconcile('all', 'graph')
    expect(results.map(({ outcome }) => outcome)).toEqual(['restored', 'restored'])
    expect([await it.both('a'), await it.both('b'), await it.ends()]).toEqual([['a', 'a'], ['changed', 'changed'], []])
  })

  it('the mode of a file too, where its content is not kept: nothing of it is lost', async () => {
    const it = await drifted({ big: 'x'.repeat(20) }, (at) => chmodSync(at('big'), 0o600), { keepBytes: 10 })
    const { mode } = lstatSync(join(it.root, 'big'))
    expect(await it.settle('big', 'graph')).toBe('restored')
    expect(lstatSync(join(it.root, 'big')).mode).not.toBe(mode)
    expect(await it.ends()).toEqual([])
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

it.each([
  ['that it begins', 1, 'new'],
  ['how it ended', 2, 'old'],
] as const)('goes on without a restart when the store does not answer to %s', async (_, silent, left) => {
  const it = await drifted({ a: 'old' }, (_at, root) => put(root, { a: 'new' }))
  const { commit } = it.graph
  let heard = 0
  it.graph.commit = async (changes, options) => {
    if (options.reason !== 'reconciled by hand: graph' || ++heard !== silent)
      return commit.call(it.graph, changes, options)
    if (silent === 1) await commit.call(it.graph, changes, options) // its answer is what gets lost
    throw new Unavailable('the store', 'it is silent')
  }
  await expect(it.tracker.reconcile(['a'], 'graph')).rejects.toThrow(Unavailable)
  it.graph.commit = commit
  expect([it.read('a'), it.tracker.findings().length]).toEqual([left, 1])
  expect([await it.ends(), it.read('a')]).toEqual([[], 'old'])
})

it('settles a finding once that is named twice, from the root on or by its id', async () => {
  for (const strategy of ['files', 'graph', 'merge'] as const) {
    const it = await drifted({ a: 'old' }, (at) => unlinkSync(at('a')))
    const settled = await it.tracker.reconcile(['./a', fileId('a'), 'a'], strategy)
    expect(settled.map(({ finding, outcome }) => [finding.path, outcome])).toEqual([
      ['a', strategy === 'graph' ? 'restored' : 'accepted'],
    ])
    expect(await it.ends()).toEqual([])
  }
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

  it('hold for a name with a line end in it too', async () => {
    const it = await drifted({ 'a\nb': 'old' }, (_, root) => put(root, { 'a\nb': 'new' }), {
      rules: [{ match: '**', strategy: 'graph' }],
    })
    expect([await it.both('a\nb'), await it.ends()]).toEqual([['old', 'old'], []])
  })

  /** A folder where somebody acts while a file is being brought back: its content is asked for a second time then, after its diff was made. */
  async function disturbed(files: Files, options: Partial<TrackOptions>, act: (root: string) => void) {
    const told: string[] = []
    const store = memoryBackend()
    let asked = 0
    const getBlob: typeof store.getBlob = (digest) => {
      if (digest === digestOf('old') && ++asked === 2) act(it.root)
      return store.getBlob(digest)
    }
    const onFindings = (news: readonly FindingRecord[]) =>
      void told.push(...news.map(({ what, path }) => `${what} ${path}`))
    const onReconciled = (results: readonly Reconciled[]) => void told.push(...results.map(({ outcome }) => outcome))
    const it = await given(files, { ...options, onFindings, onReconciled }, { ...store, getBlob })
    return { ...it, told }
  }
  const GRAPH = { rules: [{ match: '**', strategy: 'graph' }] } as const
  const removeFolder = (root: string) => rmSync(join(root, 'd'), { recursive: true })

  it('settle at the next look what somebody has changed again while it was being settled, and tell of it', async () => {
    const it = await disturbed({ a: 'old' }, GRAPH, (root) => put(root, { a: 'third' }))
    put(it.root, { a: 'second' })
    await it.tracker.scan()
    expect(it.told).toEqual(['modified a', 'overtaken', 'modified a'])
    await it.tracker.scan()
    expect(it.told.slice(3)).toEqual(['restored'])
    expect([it.tracker.findings(), readFileSync(join(it.root, 'a'), 'utf8')]).toEqual([[], 'old'])
    await it.tracker.close()
  })

  it.each(failingListeners('nobody home'))('settle all there is where who is told of it %s', async (_, fails) => {
    const it = await given({ a: 'old', b: 'old' }, { ...GRAPH, onFindings: fails, onReconciled: fails })
    put(it.root, { a: 'new', b: 'new' })
    await it.tracker.scan()
    expect([it.tracker.findings(), readFileSync(join(it.root, 'b'), 'utf8')]).toEqual([[], 'old'])
    expect(it.errors).toEqual([new Error('nobody home'), new Error('nobody home')])
    await it.tracker.close()
  })

  it('settle at the next look what was overtaken and is what it was', async () => {
    const it = await disturbed({ 'd/a': 'old' }, GRAPH, removeFolder)
    removeFolder(it.root)
    await it.tracker.scan()
    expect(it.told).toEqual(['deleted d/a', 'overtaken'])
    await it.tracker.scan()
    expect(it.told.slice(2)).toEqual(['restored'])
    expect([it.tracker.findings(), readFileSync(join(it.root, 'd/a'), 'utf8')]).toEqual([[], 'old'])
    await it.tracker.close()
  })

  it('have people asked anew about what was overtaken: its question was withdrawn when it was begun', async () => {
    const it = await disturbed({ 'd/a': 'old' }, {}, removeFolder)
    removeFolder(it.root)
    await it.tracker.scan()
    expect(await it.tracker.reconcile(['d/a'], 'graph')).toMatchObject([{ outcome: 'overtaken' }])
    await it.tracker.scan()
    const [finding] = it.tracker.findings()
    expect((await it.graph.require('confirm', finding!.confirm_id!)).data.status).toBe('pending')
    await it.tracker.close()
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
    for await (const entry of it.graph.store.read(it.graph.id))
      for (const { event } of eventsIn(entry))
        told.push([event.event_family, (event.payload as { reason?: string } | undefined)?.reason])
    expect(told.at(-1)).toEqual(['graph_update', 'reconciled by hand: files'])
    expect(new Set(told.map(([family]) => family))).toEqual(
      new Set(['graph_update', 'external_integration', 'pipeline_stage']),
    )
    expect(readdirSync(it.root)).toEqual(['a'])
    await it.tracker.close()
  })
})

describe('what settles a finding', () => {
  const nothing = { content: () => undefined }
  /** A file that both sides have agreed on as `base`, and that the graph has changed since. */
  const changed = (base: Observed, graph: Observed, file: Observed, from?: string) => {
    const believed = { ...recordOf(from ?? 'a', graph), agreed: agreedOn(base) }
    const [finding] = compare(new Map([[believed.path, believed]]), new Map([['a', file]]))
    return finding!
  }

  it('brings a renamed file back before the one that it has become goes', () => {
    const file = seen('as agreed')
    const settled = resolve(changed(file, seen('changed'), file, 'old'), 'graph', nothing)
    expect(settled).toMatchObject({
      operations: [
        { op: 'put', path: 'old' },
        { op: 'remove', path: 'a' },
      ],
    })
  })

  it('takes from each side what it has changed, with the size that belongs to it', () => {
    const [base, graph] = [seen('one'), seen('much longer', { kept: false })]
    const finding = changed(base, graph, seen('one', { mode: 0o755 }))
    const { digest, size, kept } = graph
    expect(resolve(finding, 'merge', { ...nothing, base: agreedOn(base) })).toMatchObject({
      outcome: 'merged',
      records: [{ path: 'a', record: { digest, size, kept, mode: 0o755 } }],
    })
  })

  it('asks about two files that have both come in the place of a link', () => {
    const base = seen('target', { type: 'link' })
    const finding = changed(base, seen('graph'), seen('file'))
    expect(resolve(finding, 'merge', { ...nothing, base: agreedOn(base) })).toEqual({
      outcome: 'conflict',
      reason: 'type',
    })
  })

  it('remembers of a file that its times may hide a change', () => {
    expect(agreedOn(seen('a', { racy: true }))).toMatchObject({ racy: true })
    expect(agreedOn(seen('a'))).not.toHaveProperty('racy')
  })
})
