import { type Clock, type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { RevisionConflict, RuleViolation } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { Context, Plan, Step } from '../../src/protocol/types.ts'
import type { Birth, BornEvent, Change, Changes, Commit, CommitOptions, Kind, NodeData } from '../../src/psg/change.ts'
import { confirmOf } from '../../src/psg/confirm.ts'
import { takeApart } from '../../src/psg/document.ts'
import { type GraphOptions, openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import { decide, proposePlan, startPlan } from '../../src/psg/moves.ts'
import { nodeKey, referencesOf } from '../../src/psg/node.ts'
import type { GraphState } from '../../src/psg/state.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

export const by: CommitOptions = { actor: 'tester', reason: 'a test' }
export const META = { protocol_version: '1.0.0', schema_version: '1.0.0' }
export const TIME = '2026-01-01T00:00:00.000Z'

/** A store that outlives those who hold it. */
export const lasting = (store: Backend): Backend => ({ ...store, close: async () => undefined })

/** A clock on which waiting takes no time but passes it: for what retries against a store that fails. */
export function hurriedClock(seed = 1): ManualClock {
  const clock = manualClock({ seed })
  return { ...clock, now: clock.now, sleep: (ms) => clock.advance(ms) }
}

/** A store with one active context in it, open. */
export interface World {
  readonly clock: Clock
  readonly store: Backend
  readonly graph: ProjectGraph
  readonly context: string
  /** A new id. */
  readonly id: () => string
}

export async function world(
  options: GraphOptions & { store?: Backend; seed?: number; context?: Partial<Context> } = {},
): Promise<World> {
  const { store = memoryBackend(), seed = 1, context: given, ...graphOptions } = options
  const clock = options.clock ?? manualClock({ seed })
  const context = clock.uuid()
  const graph = await openGraph(store, context, { ...graphOptions, clock })
  await graph.commit(takeApart('context', { ...contextOf(context), ...given }), by)
  return { clock, store, graph, context, id: clock.uuid }
}

export const contextOf = (context_id: string): Context => ({
  meta: META,
  context_id,
  root: { domain: 'shop', environment: 'test' },
  title: 'The shop',
  status: 'active',
})

/** A plan whose steps have names, which tell what they wait for: `{ build: [], ship: ['build'] }`. */
export interface NamedPlan {
  readonly id: string
  readonly step: (name: string) => string
  readonly document: Plan
  readonly changes: Changes
}

export function planOf(
  { context, id }: Pick<World, 'context' | 'id'>,
  steps: { readonly [name: string]: readonly string[] } = { build: [], test: ['build'], ship: ['build', 'test'] },
  more: Partial<Plan> = {},
): NamedPlan {
  const plan_id = id()
  const ids = new Map(Object.keys(steps).map((name) => [name, id()]))
  const step = (name: string) => ids.get(name) as string
  const document: Plan = {
    meta: META,
    plan_id,
    context_id: context,
    title: 'A plan',
    objective: 'to be tested',
    status: 'draft',
    steps: Object.entries(steps).map(
      ([name, waitsFor], order_index): Step => ({
        step_id: step(name),
        description: name,
        status: 'pending',
        dependencies: waitsFor.map(step),
        order_index,
      }),
    ),
    ...more,
  }
  return { id: plan_id, step, document, changes: takeApart('plan', document) }
}

/** Adds a node of any kind. */
export const add = <K extends Kind>(
  node: K,
  id: string,
  data: Birth<K>,
  more: { owner?: string; at?: number; group?: string; imported?: true; revived?: true } = {},
): Change => ({ kind: 'node_add', node, id, ...more, data }) as Change

/** Sets fields of a node of any kind. */
export const set = (node: Kind, id: string, fields: { readonly [field: string]: Json | undefined }): Change =>
  ({ kind: 'node_update', node, id, set: fields }) as Change

/** A file node's content. */
export const file = (path: string, size = 1) => ({
  path,
  type: 'file' as const,
  digest: 'sha256:00' as const,
  size,
  mode: 0o644,
  mtime: TIME,
  kept: false,
})

export const remove = (node: Kind, id: string): Change => ({ kind: 'node_delete', node, id })

/** A plan in the graph, as a draft, or as far on its way as it is told. */
export async function withPlan(
  world: World,
  steps?: { readonly [name: string]: readonly string[] },
  to: 'draft' | 'proposed' | 'approved' | 'in_progress' = 'draft',
): Promise<NamedPlan> {
  const plan = planOf(world, steps)
  await world.graph.commit(plan.changes, by)
  if (to !== 'draft') await walkTo(world, plan.id, to)
  return plan
}

export async function walkTo(
  { graph }: World,
  plan: string,
  to: 'proposed' | 'approved' | 'in_progress',
): Promise<void> {
  await graph.commit(proposePlan(graph, plan, { requested_by_role: 'planner' }), by)
  if (to === 'proposed') return
  await graph.commit(decide(graph, confirmOf(graph, plan)!.id, { status: 'approved', decided_by_role: 'owner' }), by)
  if (to === 'approved') return
  await graph.commit(startPlan(graph, plan, 'a run'), by)
}

export const bindingOf = (step_id: string, binding_id: string, params: JsonObject = {}): NodeData['binding'] => ({
  binding_id,
  step_id,
  action_type: 'function',
  params,
})

export const runOf = (
  run_id: string,
  plan_id: string,
  trace_id: string,
  phase: NodeData['run']['phase'] = 'running',
): NodeData['run'] => ({ run_id, plan_id, trace_id, phase, options: {}, spent: {} })

export const traceOf = (
  trace_id: string,
  context_id: string,
  span_id: string,
  more: Partial<NodeData['trace']> = {},
): NodeData['trace'] => ({
  meta: META,
  trace_id,
  context_id,
  root_span: { trace_id, span_id },
  status: 'running',
  ...more,
})

export const actionOf = (
  action_id: string,
  step_id: string,
  status: NodeData['action']['status'] = 'running',
): NodeData['action'] => ({
  action_id,
  step_id,
  idempotency_key: step_id,
  status,
  attempts: 1,
  failures: 0,
  execution_id: action_id,
})

export const confirmData = (
  confirm_id: string,
  target_type: NodeData['confirm']['target_type'],
  target_id: string,
  more: Partial<NodeData['confirm']> = {},
): NodeData['confirm'] => ({
  meta: META,
  confirm_id,
  target_type,
  target_id,
  status: 'pending',
  requested_by_role: 'planner',
  requested_at: TIME,
  ...more,
})

export const decisionData = (
  decision_id: string,
  status: NodeData['decision']['status'] = 'approved',
  decided_by_role = 'owner',
): NodeData['decision'] => ({ decision_id, status, decided_by_role, decided_at: TIME })

/** As a caller would who knows that others write, too: a conflict is an invitation to try again. */
export async function insisting<T>(commit: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await commit()
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error
    }
  }
}

/** What a commit was refused for. */
export async function violationsOf(commit: Promise<unknown>): Promise<RuleViolation['violations']> {
  try {
    await commit
  } catch (error) {
    if (error instanceof RuleViolation) return error.violations
    throw error
  }
  throw new Error('it was not refused')
}

/** Everything in a store that a commit could have touched. */
export async function storeContents(store: Backend): Promise<unknown> {
  const [values, feed]: [unknown[], unknown[]] = [[], []]
  for await (const value of store.scan('')) values.push(value)
  for await (const entry of store.feed()) feed.push(entry)
  return { values, feed }
}

/** Everything a graph holds in memory, in an order that does not depend on how it got there. */
export function contentsOf(state: GraphState, groups: Iterable<string> = state.groups()) {
  const nodes: { [key: string]: unknown } = {}
  const edges: string[] = []
  const plans: { [plan: string]: unknown } = {}
  for (const group of groups)
    for (const node of state.nodesOf(group)) {
      const key = nodeKey(node.kind, node.id)
      nodes[key] = node
      for (const target of new Set(state.targets(node.kind, node.id)))
        edges.push(`${key} -> ${nodeKey(target.kind, target.id)}`)
      if (node.kind === 'plan') {
        const { tally, ranks, activeRun } = state.plan(node.id)!
        plans[node.id] = { tally: { ...tally }, ranks: [...ranks], activeRun }
      }
    }
  return { nodes: sorted(nodes), edges: edges.sort(), plans: sorted(plans) }
}

/** The edges that a graph's references make, counted one by one. */
export function edgeCount(state: GraphState): number {
  let edges = 0
  for (const node of state.nodes()) for (const ref of referencesOf(node)) if (state.has(ref.kind, ref.id)) edges++
  return edges
}

const sorted = (object: { [key: string]: unknown }) =>
  Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)))

/** What a commit told. */
export const toldBy = (commit: Commit): readonly BornEvent[] => eventsIn({ ...commit, stream: commit.graph })
