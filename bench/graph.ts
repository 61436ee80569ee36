import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { DirectedGraph } from 'graphology'
import { systemClock } from '../src/protocol/clock.ts'
import type { Change } from '../src/psg/change.ts'
import { ruleBook } from '../src/psg/check.ts'
import { openGraph, type ProjectGraph } from '../src/psg/graph.ts'
import { endPlan, move } from '../src/psg/moves.ts'
import { Proposal } from '../src/psg/proposal.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'
import { beside, judged, noRounds, type Rounds, timed } from './goals.ts'
import { median, type Table, tell } from './report.ts'

// What the graph costs. Sides take turns, and the median round counts; graphology alone, without checks, store, journal and events, is the limit.
// npx tsx bench/graph.ts [statuses] [plan] [edges] [memory] [opening]

const PARTS: { readonly [name: string]: () => Promise<Table['rows']> } = {
  statuses,
  plan: addingAPlan,
  edges,
  memory: memoryPerNode,
  opening,
}
const by = { actor: 'bench', reason: 'to be measured' }
const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' }
const { uuid } = systemClock
const folder = mkdtempSync(join(tmpdir(), 'mplp-bench-'))

const chosen = process.argv.slice(2)
try {
  const rows: Record<string, Table['rows'][string]> = {}
  for (const [name, part] of Object.entries(PARTS))
    if (chosen.length === 0 || chosen.includes(name)) Object.assign(rows, await part())
  tell('The graph', rows, 'medians; wall time, and CPU time of the process beside it')
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** One step changes its status, in a plan of ten steps and of a hundred thousand; and the same in graphology alone. */
async function statuses(): Promise<Table['rows']> {
  const sides = await Promise.all(
    [10, 100_000].map(async (size) => {
      const graph = await contextIn(memoryBackend())
      return { graph, ids: await addBlockable(graph, size), rounds: noRounds() }
    }),
  )
  const [small, large] = sides as [(typeof sides)[0], (typeof sides)[0]]
  const [raw, rawRounds] = [rawGraph(large.ids), noRounds()]
  const COMMITS = 2_000
  const stepAt = (ids: readonly string[], i: number) => ids[(i * 7919) % ids.length]!
  for (let round = 0; round < 11; round++) {
    for (const { graph, ids, rounds } of sides)
      await timed(
        rounds,
        async () => {
          for (let i = 0; i < COMMITS; i++) {
            const id = stepAt(ids, i)
            const to = graph.get('step', id)!.data.status === 'pending' ? 'blocked' : 'pending'
            await graph.commit([move('step', id, to)], by)
          }
        },
        COMMITS,
      )
    await timed(
      rawRounds,
      () => {
        for (let i = 0; i < COMMITS; i++) {
          const id = stepAt(large.ids, i)
          raw.setNodeAttribute(id, 'status', raw.getNodeAttribute(id, 'status') === 'pending' ? 'blocked' : 'pending')
        }
      },
      COMMITS,
    )
  }
  const perSecond = (ms: number) => 1000 / ms
  const least = { unit: 'commits/s', least: 12_000 }
  return {
    'a status change, plan of 10 steps': beside(least, small.rounds, perSecond),
    'a status change, plan of 100,000 steps': beside(least, large.rounds, perSecond),
    'the same in graphology alone': beside({ unit: 'changes/s' }, rawRounds, perSecond),
    'large plan against small': judged(
      { unit: 'times as long', most: 1.5 },
      median(large.rounds.wall) / median(small.rounds.wall),
    ),
  }
}

function rawGraph(ids: readonly string[]): DirectedGraph {
  const graph = new DirectedGraph()
  for (const id of ids) graph.addNode(id, { status: 'pending' })
  return graph
}

/** Ten thousand steps with thirty thousand dependencies, each step bound, in one commit; and as many nodes and edges in graphology alone. */
async function addingAPlan(): Promise<Table['rows']> {
  const [ours, raw] = [noRounds(), noRounds()]
  for (let round = 0; round < 7; round++) {
    const graph = await contextIn(memoryBackend())
    const { changes } = planOf(graph.id, 10_000, 3, true)
    await timed(ours, () => graph.commit(changes, by))
    await timed(raw, () => addRaw(changes))
  }
  return {
    'adding a plan: 10,000 steps, 30,000 dependencies, bindings': beside({ unit: 'ms', most: 900 }, ours),
    'as many nodes and edges in graphology alone': beside({ unit: 'ms' }, raw),
  }
}

function addRaw(changes: readonly Change[]): void {
  const graph = new DirectedGraph()
  for (const change of changes) if (change.kind === 'node_add') graph.addNode(change.id, { data: change.data })
  for (const change of changes) {
    if (change.kind !== 'node_add') continue
    if (change.node === 'step') {
      graph.addDirectedEdge(change.owner, change.id)
      for (const dependency of change.data.dependencies ?? []) graph.addDirectedEdge(change.id, dependency)
    } else if (change.node === 'binding') graph.addDirectedEdge(change.id, change.data.step_id)
  }
}

/** The checks of one new dependency in a plan of a hundred thousand steps: as most are, and against the order that is kept. */
async function edges(): Promise<Table['rows']> {
  const graph = await contextIn(memoryBackend())
  const { ids } = await addPlan(graph, 100_000, 2, false)
  const rules = ruleBook()
  const footing = { graph: graph.id, state: graph.state, revision: graph.revision, rules }
  const order = graph.state.plan(ids.plan)!.order.ranks
  const byRank = [...order.keys()].sort((a, b) => order.get(a)! - order.get(b)!)
  const fresh = (from: string, to: string) => !graph.get('step', from)!.data.dependencies!.includes(to)
  const pairs = (count: number, up: number, down: number) =>
    Array.from({ length: count }, (_, i) => (i * 7919) % 49_000)
      .map((at) => [byRank[at + up]!, byRank[at + down]!] as const)
      .filter(([from, to]) => fresh(from, to))
  const checked = async (added: readonly (readonly [string, string])[], rounds: number): Promise<Rounds> => {
    const found = noRounds()
    for (let round = 0; round < rounds; round++)
      await timed(
        found,
        () => {
          for (const [from, to] of added) {
            const proposal = new Proposal(footing, [{ kind: 'edge_add', from, to }], by, 0)
            for (const delta of proposal.deltas)
              for (const rule of [...rules.shapes, ...rules.of[delta.kind]])
                rule.check(delta, proposal, () => undefined)
          }
        },
        added.length,
      )
    return found
  }
  const micros = (ms: number) => ms * 1000
  const most = { unit: 'µs', most: 20 }
  return {
    'all checks of a new dependency among 100,000 steps': beside(most, await checked(pairs(2_000, 997, 0), 11), micros),
    'the same, against the order over 50 ranks': beside({ unit: 'µs' }, await checked(pairs(2_000, 0, 50), 5), micros),
    'the same, over 50,000 ranks': beside({ unit: 'µs' }, await checked(pairs(20, 0, 50_000), 3), micros),
  }
}

/** The heap of this process per node, with the values in SQLite. */
async function memoryPerNode(): Promise<Table['rows']> {
  const store = await sqliteBackend({ path: join(folder, 'memory.db'), synchronous: 'OFF' })
  const graph = await contextIn(store)
  await addPlan(graph, 1_000, 3, true)
  const [heap, nodes] = [heapUsed(), graph.state.size]
  for (let i = 0; i < 3; i++) await addPlan(graph, 10_000, 3, true)
  const built = (heapUsed() - heap) / (graph.state.size - nodes)
  const before = heapUsed()
  const opened = await openGraph(store, graph.id)
  const read = (heapUsed() - before) / opened.state.size
  await store.close()
  const most = { unit: 'bytes', most: 2_048 }
  return {
    'memory per node, edges, indexes and bindings included': judged(most, built),
    'the same, read from SQLite': judged(most, read),
  }
}

/** From SQLite: a large context, a small one beside it, and one with many ended plans against one with few. */
async function opening(): Promise<Table['rows']> {
  const store = await sqliteBackend({ path: join(folder, 'opening.db'), synchronous: 'OFF' })
  const large = await contextIn(store)
  await addPlan(large, 10_000, 3, true)
  const small = await contextIn(store)
  await addPlan(small, 10, 1, true)
  const [few, many] = [await withEnded(store, 10), await withEnded(store, 1_000)]
  const sides = [large, small, few, many].map(({ id }) => ({ id, rounds: noRounds() }))
  for (let round = 0; round < 11; round++)
    for (const { id, rounds } of sides) await timed(rounds, () => openGraph(store, id))
  await store.close()
  const [largest, smallest, afterFew, afterMany] = sides.map(({ rounds }) => rounds) as [Rounds, Rounds, Rounds, Rounds]
  return {
    'opening a context of 10,000 steps, all bound': beside({ unit: 'ms', most: 400 }, largest),
    'opening one of 10 steps in the same store': beside({ unit: 'ms', most: 10 }, smallest),
    'opening one with 1,000 ended plans': beside({ unit: 'ms' }, afterMany),
    'against one with 10': judged({ unit: 'times as long', most: 1.5 }, median(afterMany.wall) / median(afterFew.wall)),
  }
}

async function withEnded(store: Backend, plans: number): Promise<ProjectGraph> {
  const graph = await contextIn(store)
  for (let n = 0; n < plans; n++) {
    const { plan } = (await addPlan(graph, 5, 1, false)).ids
    await graph.commit(endPlan(graph, plan, 'cancelled'), by)
  }
  await addPlan(graph, 10, 1, true)
  return graph
}

async function contextIn(store: Backend): Promise<ProjectGraph> {
  const context_id = uuid()
  const graph = await openGraph(store, context_id)
  const data = { meta, context_id, root: { domain: 'd', environment: 'e' }, title: 'Bench', status: 'active' as const }
  await graph.commit([{ kind: 'node_add', node: 'context', id: context_id, data }], by)
  return graph
}

type Ids = readonly string[] & { readonly plan: string }

async function addPlan(
  graph: ProjectGraph,
  steps: number,
  dependencies: number,
  bound: boolean,
): Promise<{ ids: Ids }> {
  const { changes, ids } = planOf(graph.id, steps, dependencies, bound)
  await inParts(graph, changes)
  return { ids }
}

/** Steps that wait for one that has failed, as somebody else left them: these may be blocked, and let go, as often as one likes. */
async function addBlockable(graph: ProjectGraph, steps: number): Promise<readonly string[]> {
  const { changes, ids } = planOf(graph.id, steps + 1, 0, false)
  const [failed, ...blockable] = ids
  const left = changes.map((change): Change => {
    if (change.kind !== 'node_add' || change.node !== 'step') return change
    const state = change.id === failed ? { status: 'failed' as const } : { dependencies: [failed!] }
    return { ...change, imported: true, data: { ...change.data, ...state } }
  })
  await inParts(graph, left)
  return blockable
}

async function inParts(graph: ProjectGraph, changes: readonly Change[]): Promise<void> {
  for (let at = 0; at < changes.length; at += 20_001) await graph.commit(changes.slice(at, at + 20_001), by)
}

/** Each step waits for some of those before it, always the same ones. */
function planOf(
  context_id: string,
  size: number,
  dependencies: number,
  bound: boolean,
): { changes: Change[]; ids: Ids } {
  const plan_id = uuid()
  const ids = Array.from({ length: size }, uuid)
  const data = { meta, plan_id, context_id, title: 'A plan', objective: 'o', status: 'draft' as const, steps: [] }
  const changes: Change[] = [{ kind: 'node_add', node: 'plan', id: plan_id, data }]
  for (const [at, step_id] of ids.entries()) {
    const waitsFor = new Set<string>()
    for (let n = 1; n <= dependencies && at > 0; n++) waitsFor.add(ids[(at * 31 + n * 7919) % at]!)
    changes.push({
      kind: 'node_add',
      node: 'step',
      id: step_id,
      owner: plan_id,
      at,
      data: { step_id, description: `step ${at}`, status: 'pending', dependencies: [...waitsFor], order_index: at },
    })
    if (!bound) continue
    const binding_id = uuid()
    const binding = { binding_id, step_id, action_type: 'function', params: { name: 'noop', args: { n: at } } }
    changes.push({ kind: 'node_add', node: 'binding', id: binding_id, data: binding })
  }
  return { changes, ids: Object.assign(ids, { plan: plan_id }) }
}

function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
