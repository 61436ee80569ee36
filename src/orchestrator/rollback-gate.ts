import type { RollbackPlan } from '../drift/rollback.ts'
import { canonical, type Json } from '../protocol/json.ts'
import { counted } from '../protocol/shown.ts'
import type { Gate, Node } from '../psg/change.ts'
import { gateOf, newConfirm } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { commitStill, insist } from '../psg/insist.ts'
import { move } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import { openTraces, placeOfRun } from './rollback-trace.ts'

/** What people say about a rollback that leaves something for good. */
export interface Permission {
  readonly status: 'pending' | 'approved' | 'rejected'
  readonly confirm_id: string
  readonly gate: Node<'gate'>
}

/**
 * Asks before going back along a way that does not lead all the way; `undefined` when it does. An answer holds for this very way back, also for what is
 * left of it when it was cut off.
 */
export async function permission(
  graph: ProjectGraph,
  run: Node<'run'>,
  plan: RollbackPlan,
): Promise<Permission | undefined> {
  if (plan.irreversible.length === 0) return undefined
  const asked = await graph.reading(placeOfRun(run), () => agreedTo(graph, run, plan) ?? askedFor(graph, run, plan))
  if (asked) return asked
  const [confirm_id, gate_id] = [graph.clock.uuid(), graph.clock.uuid()]
  const gate: Gate = {
    gate_id,
    confirm_id,
    target: { kind: 'other', id: run.id },
    digest: plan.digest,
    needed: 1,
    shows: { run_id: run.id, plan_id: run.data.plan_id, ...shownOf(plan) },
  }
  const actions = plan.irreversible.length
  const asks = {
    confirm_id,
    target_type: 'other',
    target_id: run.id,
    requested_by_role: 'rollback',
    reason: `run ${run.id} did ${counted(actions, 'thing')} that cannot be undone; approved: the rest is taken back`,
  } as const
  await insist(
    graph,
    [
      newConfirm(graph.clock, asks, run.group),
      { kind: 'node_add', node: 'gate', id: gate_id, group: run.group, data: gate },
    ],
    { actor: 'rollback', reason: 'asks before it goes back' },
  )
  return { status: 'pending', confirm_id, gate: graph.get('gate', gate_id)! }
}

/** Nobody is to answer what is no longer asked: whether to go back along another way than this one, or along any if there is none to ask about. */
export async function withdrawQuestions(
  graph: ProjectGraph,
  run: Node<'run'>,
  plan: RollbackPlan | undefined,
): Promise<void> {
  const stale = () =>
    [...questions(graph, run)].flatMap(({ status, confirm_id, gate }) =>
      status === 'pending' && gate.data.digest !== plan?.digest ? [move('confirm', confirm_id, 'cancelled')] : [],
    )
  const by = { actor: 'rollback', reason: 'nobody asks any more', reads: placeOfRun(run) }
  await commitStill(graph, stale, by)
}

const shownOf = (plan: RollbackPlan) => ({
  irreversible: plan.irreversible as unknown as readonly Json[],
  impossible: plan.impossible as unknown as readonly Json[],
  conflicts: plan.conflicts as unknown as readonly Json[],
  effects: plan.effects.map(({ action_id, step_id }) => ({ action_id, step_id })),
  files: plan.files.map(({ path }) => path),
})

/** What people agreed to before the way back was cut off, if nothing has come since that they were not shown. */
function agreedTo(graph: ProjectGraph, run: Node<'run'>, plan: RollbackPlan): Permission | undefined {
  const confirm_id = openTraces(graph, run).at(-1)?.data.root_span.attributes?.confirm_id
  const gate = typeof confirm_id === 'string' ? gateOf(graph, confirm_id) : undefined
  const shows = gate?.data.shows
  if (!shows || !Object.entries(shownOf(plan)).every(([what, now]) => isPartOf(now, shows[what] as readonly Json[])))
    return undefined
  return { status: 'approved', confirm_id: gate.data.confirm_id, gate }
}

function isPartOf(some: readonly Json[], all: readonly Json[]): boolean {
  const known = new Set(all.map(canonical))
  return some.every((one) => known.has(canonical(one)))
}

function askedFor(graph: ProjectGraph, run: Node<'run'>, plan: RollbackPlan): Permission | undefined {
  for (const asked of questions(graph, run)) {
    const { digest, used_by } = asked.gate.data
    if (digest === plan.digest && used_by === undefined) return asked
  }
  return undefined
}

/** What people were asked about ways back from a run. */
function* questions(graph: ProjectGraph, run: Node<'run'>): Iterable<Permission> {
  for (const { id: confirm_id, data } of ofKind(graph.state.nodesOf(run.group), 'confirm')) {
    const { status, target_id } = data
    if (target_id !== run.id || status === 'cancelled') continue
    const gate = gateOf(graph, confirm_id)
    if (gate?.data.shows?.run_id === run.id) yield { status, confirm_id, gate }
  }
}
