import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt, NotFound, RevisionConflict } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Changes, EntryBody, Stored } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { FAULTS } from '../../src/psg/finding.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { indexRows, SHARED_INDEXES } from '../../src/psg/index-rows.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import { move } from '../../src/psg/moves.ts'
import { openProject } from '../../src/psg/project.ts'
import { reindexGraph } from '../../src/psg/reindex.ts'
import { verifyGraph } from '../../src/psg/verify.ts'
import { type NamedBlobs, nameBlobs } from '../../src/psg/verify-blobs.ts'
import { reindexProject } from '../../src/psg/verify-project.ts'
import type { Backend, Entry } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  actionOf,
  add,
  by,
  confirmData,
  contextOf,
  file,
  type NamedPlan,
  runOf,
  set,
  TIME,
  traceOf,
  type World,
  withPlan,
  world,
} from './given.ts'

/** A graph with something in every index, and what damaging it needs to know. */
async function sound(): Promise<
  World & { plan: NamedPlan; confirm: string; run: string; timer: string; snapshot: string }
> {
  const given = await world({ mostTrailing: 0 })
  const { graph, id } = given
  const plan = await withPlan(given, { a: [], b: ['a'] }, 'in_progress')
  await withPlan(given, { a: [] }, 'proposed')
  const [trace, run, timer] = [id(), id(), id()]
  const traced = traceOf(trace, given.context, id(), { plan_id: plan.id })
  await graph.commit([add('trace', trace, traced), add('run', run, runOf(run, plan.id, trace))], by)
  await graph.commit([add('timer', timer, { timer_id: timer, due: TIME, purpose: 'wait', target: 'x' })], by)
  const snapshot = (await graph.snapshot('s', by)).id
  return { ...given, plan, confirm: confirmOf(graph, plan.id)!.id, run, timer, snapshot }
}

/** Writes values behind the graph's back. */
async function damage({ store }: World, puts: [string, Json][], deletes: string[] = []): Promise<void> {
  await store.commit({ stream: 'elsewhere', expected: 0, inserts: [], puts, deletes })
}

async function storedAt(store: Backend, key: string): Promise<Stored> {
  return (await store.getMany([key])).get(key) as Stored
}

/** The same store with another journal. */
const withJournal = (store: Backend, change: (entry: Entry) => Entry | undefined): Backend => ({
  ...store,
  async *read(stream, from) {
    for await (const entry of store.read(stream, from)) {
      const changed = change(entry)
      if (changed) yield changed
    }
  },
})

const bodyOf = (entry: Entry): EntryBody => entry.body as unknown as EntryBody
const withBody = (entry: Entry, body: Partial<EntryBody>): Entry => ({
  ...entry,
  body: { ...bodyOf(entry), ...body } as unknown as Json,
})

type Sound = Awaited<ReturnType<typeof sound>>

/** Each way to damage a store, and the rules under which it must be found. */
const DAMAGES: readonly (readonly [string, (given: Sound) => Promise<void>, readonly string[]])[] = [
  [
    'a value that is gone',
    async (given) => damage(given, [], [`${given.context}/${given.plan.id}/step/${given.plan.step('b')}`]),
    ['value.missing', 'delta.nodes', 'delta.edges', 'index.id'],
  ],
  [
    'a value that was edited',
    async (given) => {
      const key = `${given.context}/${given.plan.id}/plan/${given.plan.id}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, data: { ...value.data, title: 'forged' } } as Json]])
    },
    ['value.differs'],
  ],
  [
    'a value that nobody wrote',
    async (given) => {
      const step_id = given.id()
      const data = { step_id, description: 'x', status: 'pending', dependencies: [] }
      await damage(given, [
        [`${given.context}/${given.plan.id}/step/${step_id}`, { owner: given.plan.id, born: 1, data }],
      ])
    },
    ['value.unknown', 'delta.nodes', 'delta.edges', 'index.id'],
  ],
  [
    'a value that is no node',
    async (given) =>
      damage(given, [
        [`${given.context}/${given.plan.id}/step/${given.plan.step('b')}`, null],
        [`${given.context}/-/nonsense/x`, {}],
        [`${given.context}/nonsense`, {}],
      ]),
    ['value.form', 'value.missing', 'delta.nodes', 'delta.edges', 'index.id'],
  ],
  [
    'a value that does not fit its shape',
    async (given) => {
      const key = `${given.context}/${given.plan.id}/plan/${given.plan.id}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, data: { ...value.data, status: null } } as Json]])
    },
    ['value.shape', 'value.differs', 'reference.resolves', 'delta.nodes', 'delta.edges', 'index.running', 'index.open'],
  ],
  [
    'a node in two groups',
    async (given) => {
      const key = `${given.context}/${given.plan.id}/step/${given.plan.step('b')}`
      await damage(given, [
        [`${given.context}/-/step/${given.plan.step('b')}`, (await storedAt(given.store, key)) as Json],
      ])
    },
    ['value.unknown', 'id.unique'],
  ],
  [
    'a reference to nothing',
    async (given) => {
      const key = `${given.context}/${given.plan.id}/step/${given.plan.step('b')}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, data: { ...value.data, dependencies: [given.id()] } } as Json]])
    },
    ['value.differs', 'reference.resolves'],
  ],
  [
    'steps that wait for each other',
    async (given) => {
      const key = `${given.context}/${given.plan.id}/step/${given.plan.step('a')}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, data: { ...value.data, dependencies: [given.plan.step('b')] } } as Json]])
    },
    ['value.differs', 'plan.acyclic', 'delta.edges'],
  ],
  [
    'an id that leads nowhere',
    async (given) => damage(given, [], [INDEX.id('step', given.plan.step('a'))]),
    ['index.id'],
  ],
  [
    'an id that leads to another graph',
    async (given) =>
      damage(given, [[INDEX.id('step', given.plan.step('a')), { graph: given.id(), group: given.plan.id }]]),
    ['index.id'],
  ],
  [
    'an id that leads to another group',
    async (given) => damage(given, [[INDEX.id('step', given.plan.step('a')), { graph: given.context, group: '-' }]]),
    ['index.id'],
  ],
  [
    'an id that leads to no graph',
    async (given) =>
      damage(given, [
        [INDEX.id('step', given.plan.step('a')), { group: given.plan.id }],
        [INDEX.id('step', given.plan.step('b')), null],
      ]),
    ['index.id'],
  ],
  [
    'an id of nothing',
    async (given) => damage(given, [[INDEX.id('step', given.id()), { graph: given.context, group: '-' }]]),
    ['index.id'],
  ],
  [
    'a running plan that is not listed',
    async (given) => damage(given, [], [INDEX.running(given.plan.id)]),
    ['index.running'],
  ],
  [
    'a plan that is listed as running and is not',
    async (given) => damage(given, [[INDEX.running(given.id()), { graph: given.context, group: 'x' }]]),
    ['index.running'],
  ],
  [
    'a plan that is listed as resting and is not',
    async (given) => damage(given, [[INDEX.resting(given.plan.id), { graph: given.context, group: given.plan.id }]]),
    ['index.resting'],
  ],
  [
    'a run that is listed as ended and is not',
    async (given) => damage(given, [[INDEX.ended(TIME, given.run), {}]]),
    ['index.ended'],
  ],
  [
    'a Confirm that waits and is not listed',
    async (given) => {
      const waiting: string[] = []
      for await (const [key] of given.store.scan('waiting/')) waiting.push(key)
      await damage(given, [], waiting)
    },
    ['index.waiting'],
  ],
  [
    'a Confirm that is listed and does not wait',
    async (given) => damage(given, [[INDEX.waiting(given.confirm), { graph: given.context, group: given.plan.id }]]),
    ['index.waiting'],
  ],
  [
    'a timer that is listed and is none',
    async (given) => damage(given, [[INDEX.timer(TIME, given.id()), { graph: given.context, group: '-' }]]),
    ['index.timer'],
  ],
  ['a timer that is not listed', async (given) => damage(given, [], [INDEX.timer(TIME, given.timer)]), ['index.timer']],
  [
    'an open plan that is not listed',
    async (given) => damage(given, [], [INDEX.open(given.context, given.plan.id)]),
    ['index.open'],
  ],
  [
    'a group that is listed as open and is none',
    async (given) => damage(given, [[INDEX.open(given.context, 'ghost'), {}]]),
    ['index.open'],
  ],
  [
    'a snapshot of itself',
    async (given) => {
      const key = `${given.context}/-/snapshot/${given.snapshot}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, data: { ...value.data, revision: value.born } } as Json]])
    },
    ['value.differs', 'snapshot.revision'],
  ],
  [
    'a snapshot of the future',
    async (given) => {
      const key = `${given.context}/-/snapshot/${given.snapshot}`
      const value = await storedAt(given.store, key)
      await damage(given, [[key, { ...value, born: 100, data: { ...value.data, revision: 99 } } as Json]])
    },
    ['value.differs', 'snapshot.revision'],
  ],
]

/** What becomes of blobs, and the rule under which it must be found. */
const BLOB_DAMAGES: readonly (readonly [string, (blob: Uint8Array | undefined) => Uint8Array | undefined, string])[] = [
  ['a blob that is gone', () => undefined, 'blob.missing'],
  ['a blob that was changed', () => Buffer.from('forged'), 'blob.differs'],
  [
    'a blob that its store finds damaged',
    () => {
      throw new Corrupt('a blob', 'bring it back')
    },
    'blob.differs',
  ],
]

const JOURNAL_DAMAGES: readonly (readonly [string, (entry: Entry) => Entry | undefined, readonly string[]])[] = [
  ...[null, 'x', [], {}].map(
    (body) =>
      [
        `an entry that is ${JSON.stringify(body)}`,
        (entry: Entry) => (entry.revision === 2 ? { ...entry, body } : entry),
        ['journal.form', 'journal.fold', 'value.unknown', 'delta.nodes', 'delta.edges'],
      ] as const,
  ),
  ...[null, { key: 'x' }, { key: 'x/-/step/y', after: null }].map(
    (change) =>
      [
        `a change that is ${JSON.stringify(change)}`,
        (entry: Entry) =>
          entry.revision === 3
            ? withBody(entry, { changes: [change as never, ...bodyOf(entry).changes.slice(1)] })
            : entry,
        ['journal.form', 'journal.fold', 'value.unknown', 'delta.nodes', 'delta.edges'],
      ] as const,
  ),
  [
    'an event of a change that is not there',
    (entry) => (entry.revision === 2 ? withBody(entry, { events: [{ update: [99, 100], edges: 0 }] }) : entry),
    ['journal.form', 'delta.nodes', 'delta.edges'],
  ],
  [
    'an entry that is missing',
    (entry) => (entry.revision === 2 ? undefined : entry),
    ['journal.gap', 'journal.fold', 'value.unknown', 'delta.nodes', 'delta.edges'],
  ],
  [
    'a journal that ends too early',
    (entry) => (entry.revision >= 3 ? undefined : entry),
    ['journal.gap', 'value.unknown', 'value.differs', 'delta.nodes', 'delta.edges'],
  ],
  [
    'a change that does not follow from the one before',
    (entry) =>
      entry.revision !== 3
        ? entry
        : withBody(entry, {
            changes: bodyOf(entry).changes.map((change) =>
              'now' in change ? { ...change, was: { status: 'proposed' } } : change,
            ),
          }),
    ['journal.fold'],
  ],
  [
    'events that were told out of order',
    (entry) => (entry.revision === 2 ? withBody(entry, { at: '2001-01-01T00:00:00.000000Z' }) : entry),
    ['event.order'],
  ],
  [
    'an event that is missing',
    (entry) => (entry.revision === 2 ? withBody(entry, { events: [] }) : entry),
    ['delta.nodes', 'delta.edges'],
  ],
]

describe('psg/verify', () => {
  it('is shown a damage for everything that it can find', () => {
    const shown = [...DAMAGES, ...JOURNAL_DAMAGES, ...BLOB_DAMAGES].flatMap(([, , rules]) => rules)
    expect(new Set(shown)).toEqual(new Set(FAULTS))
  })

  it('finds nothing in a store that holds together', async () => {
    expect(await (await sound()).graph.verify()).toEqual([])
  })

  it('finds nothing where values trail behind the journal, and what is wrong once nothing says so', async () => {
    const given = await sound()
    const { graph, context, store } = given
    const trailing = await openGraph(store, context)
    await trailing.commit([set('context', context, { title: 'later' })], by)
    expect(await graph.verify()).toEqual([])
    const mark = INDEX.written(context)
    expect((await store.getMany([mark])).has(mark)).toBe(true)
    await damage(given, [], [mark])
    expect((await graph.verify()).map(({ rule }) => rule)).toEqual(['value.differs'])
  })

  for (const [title, harm, rules] of DAMAGES)
    it(`finds ${title}`, async () => {
      const given = await sound()
      await harm(given)
      const before = JSON.stringify(await everything(given.store))
      const findings = await given.graph.verify()
      expect(new Set(findings.map(({ rule }) => rule))).toEqual(new Set(rules))
      for (const { node, message } of findings) expect(node + message).toMatch(/.../)
      expect(JSON.stringify(await everything(given.store))).toBe(before) // it repairs nothing
    })

  for (const [title, change, rules] of JOURNAL_DAMAGES)
    it(`finds ${title}`, async () => {
      const { store, context } = await sound()
      const findings = await verifyGraph(withJournal(store, change), context)
      expect(new Set(findings.map(({ rule }) => rule))).toEqual(new Set(rules))
    })

  it('finds that the newest entry is missing', async () => {
    const { graph, store, context } = await sound()
    const { revision } = graph
    const shorter = withJournal(store, (entry) => (entry.revision === revision ? undefined : entry))
    const findings = await verifyGraph(shorter, context)
    expect(findings[0]).toMatchObject({
      rule: 'journal.gap',
      message: `the journal ends at ${revision - 1}, the head says ${revision}`,
    })
  })

  it('finds two events of one moment', async () => {
    const { graph, store, context } = await sound()
    let before = ''
    const at = (entry: Entry) => {
      const last = before
      before = bodyOf(entry).at
      return entry.revision === graph.revision ? withBody(entry, { at: last }) : entry // of a single event
    }
    expect((await verifyGraph(withJournal(store, at), context)).map(({ rule }) => rule)).toEqual(['event.order'])
  })

  it('finds a list that is told to have grown when it had another length', async () => {
    const given = await world({ mostTrailing: 0 })
    const { graph, store, context, id } = given
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const action = id()
    const began = [0, 1].map((at) => ({ segment_id: id(), at, started_at: TIME }))
    const data = { ...actionOf(action, plan.step('a')), began: began.slice(0, 1) }
    await graph.commit([move('step', plan.step('a'), 'in_progress'), add('action', action, data)], by)
    await graph.commit([set('action', action, { began })], by)
    expect(await verifyGraph(store, context)).toEqual([])
    const grownFrom = (from: number) =>
      withJournal(store, (entry) =>
        withBody(entry, {
          changes: bodyOf(entry).changes.map((change) =>
            'grew' in change ? { ...change, grew: { began: { ...change.grew!.began!, from } } } : change,
          ),
        }),
      )
    expect((await verifyGraph(grownFrom(2), context)).map(({ rule }) => rule)).toEqual(['journal.fold'])
    expect((await verifyGraph(grownFrom(0), context)).map(({ rule }) => rule)).toContain('journal.fold')
    const formless = withJournal(store, (entry) =>
      withBody(entry, {
        changes: bodyOf(entry).changes.map((change) =>
          'grew' in change ? { ...change, grew: { began: 1 as never } } : change,
        ),
      }),
    )
    expect((await verifyGraph(formless, context)).map(({ rule }) => rule)).toContain('journal.form')
  })

  for (const [title, found, rule] of BLOB_DAMAGES)
    it(`finds ${title}`, async () => {
      const { graph, store, context, id } = await sound()
      const [kept, changed] = [id(), id()]
      const digest = await store.putBlob(Buffer.from('one'))
      await graph.commit([add('file', kept, { ...file('a'), digest, kept: true }), add('file', changed, file('b'))], by)
      expect(await verifyGraph(store, context)).toEqual([])
      const damaged: Backend = { ...store, getBlob: async (digest) => found(await store.getBlob(digest)) }
      expect((await verifyGraph(damaged, context)).map((finding) => finding.rule)).toEqual([rule])
    })

  it('misses what would be put back by the inverse of what an action carried out on its way', async () => {
    const given = await world()
    const { graph, store, context, id } = given
    const plan = await withPlan(given, { a: [] }, 'in_progress')
    const action = id()
    const acted = (['1', '2'] as const).map((digit, at) => {
      const params = { operation: 'write', path: 'a', content_digest: `sha256:${digit.repeat(64)}` }
      const inverse = { action_type: 'file_operation', params }
      return { action_id: id(), idempotency_key: digit, execution_id: id(), inverse, at }
    })
    const data = { ...actionOf(action, plan.step('a')), acted: acted.slice(0, 1) }
    await graph.commit([move('step', plan.step('a'), 'in_progress'), add('action', action, data)], by)
    await graph.commit([set('action', action, { acted })], by)
    const findings = await verifyGraph(store, context)
    expect(findings.map(({ rule }) => rule)).toEqual(['blob.missing', 'blob.missing'])
  })

  it('looks for every blob that something names, once', () => {
    const named: NamedBlobs = new Map()
    const digest = (digit: number) => `sha256:${String(digit).repeat(64)}`
    const kept = (digit: number) => ({ digest: digest(digit), kept: true })
    const inverse = { action_type: 'file_operation', params: { content_digest: digest(3) } }
    for (const [kind, data] of [
      ['action', { output_blob: digest(1), resume_blob: digest(2), inverse }],
      ['file', { ...kept(4), agreed: kept(5) }],
      ['file', { digest: digest(0), kept: false, agreed: kept(5) }],
      ['finding', { believed: kept(6), observed: kept(7), diff_blob: digest(8) }],
    ] as const)
      nameBlobs({ key: `x/-/${kind}/${kind}`, after: { born: 1, data } }, named)
    expect([...named.keys()]).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map(digest))
  })

  it('ends between two contexts once its caller wants no more', async () => {
    const clock = manualClock()
    const project = await openProject(memoryBackend(), { clock })
    for (let i = 0; i < 3; i++) await project.create(contextOf(clock.uuid()), by)
    const [stop, looks] = [new AbortController(), [] as number[]]
    const onProgress = (done: number) => void (looks.push(done) === 2 && stop.abort(new Error('enough')))
    await expect(project.verify({ onProgress, signal: stop.signal })).rejects.toThrow('enough')
    expect(looks).toEqual([1, 2])
  })

  it('looks at all contexts of a project, and reads the indexes once for all of them', async () => {
    const store = memoryBackend()
    const scans: string[] = []
    const scan: Backend['scan'] = (prefix, from) => {
      scans.push(prefix)
      return store.scan(prefix, from)
    }
    const clock = manualClock()
    const project = await openProject({ ...store, scan }, { clock })
    const contexts = Array.from({ length: 5 }, () => clock.uuid())
    for (const context of contexts) await project.create(contextOf(context), by)
    scans.length = 0
    expect(await project.verify()).toEqual({ contexts: 5, findings: [] })
    expect(scans.filter((prefix) => prefix === 'id/')).toEqual(['id/'])

    const [first, second] = contexts as [string, string]
    const stray = INDEX.id('step', clock.uuid())
    await store.commit({
      stream: 'elsewhere',
      expected: 0,
      inserts: [],
      puts: [[stray, { graph: first, group: '-' }]],
      deletes: [],
    })
    expect((await project.verify()).findings).toMatchObject([{ rule: 'index.id', node: stray }])
    expect(await project.verify({ contexts: [second] })).toEqual({ contexts: 1, findings: [] })
    await expect(project.verify({ contexts: [clock.uuid()] })).rejects.toThrow(NotFound)
  })

  it('finds a context that its own row does not lead to, one that has lost its journal, and rows that lead nowhere', async () => {
    const store = memoryBackend()
    const clock = manualClock()
    const project = await openProject(store, { clock })
    const [hidden, ghost] = [clock.uuid(), clock.uuid()]
    const graph = await project.create(contextOf(hidden), by)
    const confirm = clock.uuid()
    await graph.commit([add('confirm', confirm, confirmData(confirm, 'other', clock.uuid()))], by)
    const nowhere = ['running/x', 'timer/x', 'ended/x/y', 'id/x']
    await store.commit({
      stream: 'elsewhere',
      expected: 0,
      inserts: [],
      puts: [
        [INDEX.id('context', ghost), { graph: ghost, group: '-' }],
        ...nowhere.map((key, i): [string, Json] => [key, [null, 1, {}, { graph: 1 }][i]!]),
      ],
      deletes: [INDEX.id('context', hidden)],
    })
    const { contexts, findings } = await project.verify()
    expect(contexts).toBe(2)
    expect(new Set(findings.map(({ node }) => node))).toEqual(
      new Set([INDEX.id('context', hidden), INDEX.id('context', ghost), ...nowhere]),
    )
    const { mended } = await reindexProject(store, project.id)
    expect(mended.length).toBe(findings.length)
    expect(await project.verify()).toEqual({ contexts: 1, findings: [] })
  })

  it('takes a row for a stray only while it is there', async () => {
    const { store, graph, context } = await sound()
    const rows = new Map([[context, [INDEX.running('gone')]]])
    expect(await verifyGraph(store, context, rows)).toEqual([])
    expect(await graph.verify()).toEqual([])
  })

  /** The store, where somebody writes to the context whenever values or indexes are read. */
  const interrupted = ({ store, graph, context }: World, changes: (time: number) => Changes): Backend => {
    let times = 0
    const write = () => graph.commit(changes(++times), by)
    return {
      ...store,
      async *scan(prefix, from) {
        if (prefix.startsWith(`${context}/`)) await write()
        yield* store.scan(prefix, from)
      },
      async getMany(keys) {
        await write()
        return store.getMany(keys)
      },
    }
  }

  it('does not take for damage what others write meanwhile, also when they never stop', async () => {
    const given = await sound()
    const { context, id } = given
    let timer: string | undefined
    const writing = interrupted(given, (time) => {
      const fired = timer === undefined ? [] : [set('timer', timer, { fired: true })]
      timer = id()
      const data = { timer_id: timer, due: TIME, purpose: 'wait', target: 'x' } as const
      return [set('context', context, { title: `${time}` }), ...fired, add('timer', timer, data)]
    })
    expect(await verifyGraph(writing, context)).toEqual([])
  })

  it('leaves to the next proof what others write meanwhile that is no entry', async () => {
    const given = await sound()
    const { context, graph, store } = given
    const { revision } = graph
    const formless = withJournal(store, (entry) => (entry.revision > revision ? { ...entry, body: null } : entry))
    const writing = interrupted({ ...given, store: formless }, (time) => [
      set('context', context, { title: `${time}` }),
    ])
    expect((await verifyGraph(writing, context)).map(({ rule }) => rule)).toContain('journal.form')
  })

  it('still finds what is wrong elsewhere in a graph that others never stop writing to', async () => {
    const given = await sound()
    const { context, plan } = given
    await damage(given, [[INDEX.open(context, 'nobody'), {}]], [INDEX.running(plan.id)])
    const writing = interrupted(given, (time) => [set('context', context, { title: `${time}` })])
    expect((await verifyGraph(writing, context)).map(({ rule }) => rule)).toEqual(['index.running', 'index.open'])
  })

  it('gives up where something seems wrong whenever it looks, and others write just there', async () => {
    const given = await sound()
    const { context } = given
    await damage(given, [], [INDEX.id('context', context)])
    const writing = interrupted(given, (time) => [set('context', context, { title: `${time}` })])
    await expect(verifyGraph(writing, context)).rejects.toBeInstanceOf(RevisionConflict)
  })

  it.each([0, 32])(
    'finds nothing in a context where plans come and go meanwhile, %i entries trailing',
    async (mostTrailing) => {
      const given = await world({ mostTrailing })
      const { graph, store, id, context } = given
      async function* life() {
        for (;;) {
          const { id: plan, step } = await withPlan(given, { a: [], b: ['a'] }, 'in_progress')
          const timer = id()
          yield graph.commit([add('timer', timer, { timer_id: timer, due: TIME, purpose: 'wait', target: plan })], by)
          yield graph.commit([set('timer', timer, { fired: true }), set('context', context, { title: plan })], by)
          const skipped = ['a', 'b'].map((name) => set('step', step(name), { status: 'skipped' }))
          yield graph.commit([set('plan', plan, { status: 'cancelled' }), ...skipped], by)
        }
      }
      const living = life()
      let [reads, commits] = [0, 0]
      /** At every 13th thing that is read something is written, wherever that is. */
      const passing = async <T>(read: T): Promise<T> => {
        if (++reads % 13 === 0) await living.next().then(() => commits++)
        return read
      }
      async function* each<T>(things: AsyncIterable<T>): AsyncIterable<T> {
        for await (const thing of things) yield passing(thing)
      }
      const project = await openProject({
        ...store,
        getMany: async (keys) => passing(await store.getMany(keys)),
        head: async (stream) => passing(await store.head(stream)),
        scan: (prefix, from) => each(store.scan(prefix, from)),
        read: (stream, from) => each(store.read(stream, from)),
      })
      for (let i = 0; i < 5; i++) await living.next()
      for (let time = 0; time < 5; time++)
        expect(await project.verify({ contexts: [context] })).toEqual({ contexts: 1, findings: [] })
      expect(commits).toBeGreaterThan(20)
    },
  )

  it('is content with what a caller tells of the graph, which is not what the graph tells', async () => {
    const { graph, context } = await sound()
    const update = { graph_id: context, update_kind: 'node_add', node_delta: 3, edge_delta: 1 }
    const event = { event_type: 'plan_created', event_family: 'graph_update', ...update }
    await graph.commit([], { ...by, events: [{ event }] })
    expect(await graph.verify()).toEqual([])
  })

  it('is content with a Confirm about something that no graph knows, and with one about an action', async () => {
    const given = await world()
    const { graph, id } = given
    const { step } = await withPlan(given, { a: [] }, 'in_progress')
    const [action, stranger, known] = [id(), id(), id()]
    await graph.commit([move('step', step('a'), 'in_progress'), add('action', action, actionOf(action, step('a')))], by)
    await graph.commit([add('confirm', stranger, confirmData(stranger, 'other', id()))], by)
    await graph.commit([add('confirm', known, confirmData(known, 'other', action))], by)
    expect(await graph.verify()).toEqual([])
  })
})

async function everything(store: Backend): Promise<unknown> {
  const all: unknown[] = []
  for await (const pair of store.scan('')) all.push(pair)
  return all
}

describe('psg/reindex', () => {
  const ofIndexes = DAMAGES.filter(([, , rules]) => rules.every((rule) => rule.startsWith('index.')))
  const elsewhere = 'an id that leads to another graph'

  it.each(ofIndexes.filter(([title]) => title !== elsewhere))(
    'puts %s right, and tells what it was',
    async (_, harm, rules) => {
      const given = await sound()
      const { store, context } = given
      const before = await everyRow(store)
      await harm(given)
      const { mended, findings } = await reindexGraph(store, context, await indexRows(store, context))
      expect(findings).toEqual([])
      expect(mended.map(({ rule }) => rule)).toEqual(expect.arrayContaining([...rules]))
      expect(await everyRow(store)).toEqual(before)
      expect(await given.graph.verify()).toEqual([])
    },
  )

  it('leaves to another graph what leads there', async () => {
    const given = await sound()
    const { store, context } = given
    await DAMAGES.find(([title]) => title === elsewhere)![1](given)
    const { mended, findings } = await reindexGraph(store, context, await indexRows(store, context))
    expect([mended, findings.map(({ rule }) => rule)]).toEqual([[], ['index.id']])
  })

  it('makes nothing from values that are not what the journal says', async () => {
    const given = await sound()
    const { store, context, plan } = given
    await damage(given, [], [`${context}/${plan.id}/step/${plan.step('b')}`, INDEX.running(plan.id)])
    const { mended, findings } = await reindexGraph(store, context, await indexRows(store, context))
    expect(mended).toEqual([])
    expect(findings.map(({ rule }) => rule)).toEqual(expect.arrayContaining(['value.missing', 'index.running']))
    expect((await store.getMany([INDEX.running(plan.id)])).size).toBe(0)
  })

  it('looks again when somebody commits meanwhile', async () => {
    const given = await sound()
    const { store, context, graph, plan } = given
    await damage(given, [], [INDEX.running(plan.id)])
    let commits = 0
    const busy: Backend = {
      ...store,
      async commit(write) {
        if (++commits === 1) await graph.commit([set('context', context, { title: 'meanwhile' })], by)
        return store.commit(write)
      },
    }
    const { mended } = await reindexGraph(busy, context, await indexRows(store, context))
    expect([mended.map(({ rule }) => rule), commits]).toEqual([['index.running'], 2])
    expect(await graph.verify()).toEqual([])
  })
})

/** Everything in the store that is no part of a graph. */
async function everyRow(store: Backend): Promise<readonly unknown[]> {
  const rows: unknown[] = []
  for (const index of SHARED_INDEXES) for await (const row of store.scan(`${index}/`)) rows.push(row)
  return rows
}
