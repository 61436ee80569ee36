import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { systemClock } from '../src/protocol/clock.ts'
import type { Change } from '../src/psg/change.ts'
import { ruleBook } from '../src/psg/check.ts'
import { openGraph, type ProjectGraph } from '../src/psg/graph.ts'
import { endPlan, move } from '../src/psg/moves.ts'
import { Proposal } from '../src/psg/proposal.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'

// What the graph costs, in CPU time of this process, so that a busy machine does not count. Sides take turns, and the least disturbed round counts.
// npx tsx bench/graph.ts [statuses] [plan] [edges] [memory] [opening]

const PARTS = { statuses, plan: addingAPlan, edges, memory: memoryPerNode, opening }
const by = { actor: 'bench', reason: 'to be measured' }
const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' }
const { uuid } = systemClock
const folder = mkdtempSync(join(tmpdir(), 'mplp-bench-'))

const chosen = process.argv.slice(2)
try {
  for (const [name, part] of Object.entries(PARTS)) if (chosen.length === 0 || chosen.includes(name)) await part()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** One step changes its status, in a plan of ten steps and of a hundred thousand. */
async function statuses(): Promise<void> {
  const sides = await Promise.all(
    [10, 100_000].map(async (size) => {
      const graph = await contextIn(memoryBackend())
      const { ids } = await addPlan(graph, size, 0, false)
      return { size, graph, ids, best: Number.POSITIVE_INFINITY }
    }),
  )
  const COMMITS = 2_000
  for (let round = 0; round < 10; round++)
    for (const side of sides) {
      const { graph, ids } = side
      const spent = await cpuMs(async () => {
        for (let i = 0; i < COMMITS; i++) {
          const id = ids[(i * 7919) % ids.length]!
          const to = graph.get('step', id)!.data.status === 'pending' ? 'blocked' : 'pending'
          await graph.commit([move('step', id, to)], by)
        }
      })
      side.best = Math.min(side.best, spent / COMMITS)
    }
  for (const { size, best } of sides)
    say(`a status change in a plan of ${size} steps`, `${rate(best)} commits/s (${(best * 1000).toFixed(1)} µs)`)
  say('large against small', (sides[1]!.best / sides[0]!.best).toFixed(2))
}

/** Ten thousand steps with thirty thousand dependencies, each step bound, in one commit. */
async function addingAPlan(): Promise<void> {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 8; round++) {
    const graph = await contextIn(memoryBackend())
    const { changes } = planOf(graph.id, 10_000, 3, true)
    best = Math.min(best, await cpuMs(() => graph.commit(changes, by)))
  }
  say('adding a plan of 10,000 steps, 30,000 dependencies and bindings', `${best.toFixed(0)} ms`)
}

/** The checks of one new dependency in a plan of a hundred thousand steps: as most are, and against the order that is kept. */
async function edges(): Promise<void> {
  const graph = await contextIn(memoryBackend())
  const { ids } = await addPlan(graph, 100_000, 2, false)
  const rules = ruleBook()
  const footing = { graph: graph.id, state: graph.state, revision: graph.revision, rules }
  const order = graph.state.plan(ids.plan)!.order.ranks
  const byRank = [...order.keys()].sort((a, b) => order.get(a)! - order.get(b)!)
  const fresh = (from: string, to: string) => !graph.get('step', from)!.data.dependencies!.includes(to)
  const pairs = (count: number, up: number, down: number) =>
    Array.from({ length: count }, (_, i) => (i * 7919) % 99_000)
      .map((at) => [byRank[at + up]!, byRank[at + down]!] as const)
      .filter(([from, to]) => fresh(from, to))
  const check = async (edges: readonly (readonly [string, string])[]) => {
    let [best, refused] = [Number.POSITIVE_INFINITY, 0]
    for (let round = 0; round < 10; round++) {
      const spent = await cpuMs(() => {
        refused = 0
        for (const [from, to] of edges) {
          const proposal = new Proposal(footing, [{ kind: 'edge_add', from, to }], by, 0)
          for (const delta of proposal.deltas)
            for (const rule of [...rules.shapes, ...rules.of[delta.kind]]) rule.check(delta, proposal, () => refused++)
        }
      })
      best = Math.min(best, spent / edges.length)
    }
    return `${(best * 1000).toFixed(1)} µs (${refused} of ${edges.length} close a cycle)`
  }
  say('all checks of a new dependency among 100,000 steps', await check(pairs(2_000, 997, 0)))
  say('the same, against the order over 50 ranks', await check(pairs(2_000, 0, 50)))
}

/** The heap of this process per node, with the values in SQLite. */
async function memoryPerNode(): Promise<void> {
  const store = await sqliteBackend({ path: join(folder, 'memory.db'), synchronous: 'OFF' })
  const graph = await contextIn(store)
  await addPlan(graph, 1_000, 3, true)
  const [heap, nodes] = [heapUsed(), graph.state.size]
  for (let i = 0; i < 3; i++) await addPlan(graph, 10_000, 3, true)
  const what = 'memory per node (10,000 steps, 30,000 dependencies, 10,000 bindings, thrice)'
  say(what, `${((heapUsed() - heap) / (graph.state.size - nodes)).toFixed(0)} bytes`)
  const before = heapUsed()
  const opened = await openGraph(store, graph.id)
  say('the same, read from the store', `${((heapUsed() - before) / opened.state.size).toFixed(0)} bytes`)
  await store.close()
}

/** From SQLite: a large context, a small one beside it, and one with many ended plans against one with few. */
async function opening(): Promise<void> {
  const store = await sqliteBackend({ path: join(folder, 'opening.db'), synchronous: 'OFF' })
  const large = await contextIn(store)
  await addPlan(large, 10_000, 3, true)
  const small = await contextIn(store)
  await addPlan(small, 10, 1, true)
  const past = [await contextIn(store), await contextIn(store)]
  for (const [i, ended] of [10, 1_000].entries()) {
    for (let n = 0; n < ended; n++) {
      const { plan } = (await addPlan(past[i]!, 5, 1, false)).ids
      await past[i]!.commit(endPlan(past[i]!, plan, 'cancelled'), by)
    }
    await addPlan(past[i]!, 10, 1, true)
  }
  const sides = [
    ['a context of 10,000 steps', large],
    ['another of 10 steps in the same store', small],
    ['one with 10 ended plans', past[0]!],
    ['one with 1,000 ended plans', past[1]!],
  ] as const
  const best = sides.map(() => Number.POSITIVE_INFINITY)
  for (let round = 0; round < 8; round++)
    for (const [i, [, { id }]] of sides.entries()) best[i] = Math.min(best[i]!, await cpuMs(() => openGraph(store, id)))
  for (const [i, [name]] of sides.entries()) say(`opening ${name}`, `${best[i]!.toFixed(1)} ms`)
  await store.close()
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
  for (let at = 0; at < changes.length; at += 20_001) await graph.commit(changes.slice(at, at + 20_001), by)
  return { ids }
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

async function cpuMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

function rate(ms: number): string {
  return Math.round(1000 / ms).toLocaleString('en')
}

function say(what: string, figure: string): void {
  console.log(`${what}: ${figure}`)
}
