import type { RollbackPlan } from '../drift/rollback.ts'
import type { Json } from '../protocol/json.ts'
import type { Gate, Node } from '../psg/change.ts'
import { newConfirm } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { gateOf } from '../psg/moves.ts'
import { isKind } from '../psg/node.ts'

/** What people say about a rollback that leaves something for good. */
export interface Permission {
  readonly status: 'pending' | 'approved' | 'rejected'
  readonly confirm_id: string
  readonly gate: Node<'gate'>
}

/** Asks before going back along a way that does not lead all the way; `undefined` when it does. An answer holds for this very way back. */
export async function permission(
  graph: ProjectGraph,
  run: Node<'run'>,
  plan: RollbackPlan,
): Promise<Permission | undefined> {
  if (plan.irreversible.length === 0) return undefined
  const asked = askedFor(graph, run, plan)
  if (asked) return asked
  const [confirm_id, gate_id] = [graph.clock.uuid(), graph.clock.uuid()]
  const gate: Gate = {
    gate_id,
    confirm_id,
    target: { kind: 'other', id: run.id },
    digest: plan.digest,
    needed: 1,
    shows: {
      run_id: run.id,
      plan_id: run.data.plan_id,
      irreversible: plan.irreversible as unknown as Json,
      impossible: plan.impossible as unknown as Json,
      conflicts: plan.conflicts as unknown as Json,
      effects: plan.effects.map(({ action_id, step_id }) => ({ action_id, step_id })),
      files: plan.files.map(({ path }) => path),
    },
  }
  const actions = plan.irreversible.length
  const asks = {
    confirm_id,
    target_type: 'other',
    target_id: run.id,
    requested_by_role: 'rollback',
    reason: `run ${run.id} did ${actions} thing${actions === 1 ? '' : 's'} that cannot be undone; approved: the rest is taken back`,
  } as const
  await graph.commit(
    [
      newConfirm(graph.clock, asks, run.group),
      { kind: 'node_add', node: 'gate', id: gate_id, group: run.group, data: gate },
    ],
    { actor: 'rollback', reason: 'asks before it goes back' },
  )
  return { status: 'pending', confirm_id, gate: graph.get('gate', gate_id)! }
}

function askedFor(graph: ProjectGraph, run: Node<'run'>, plan: RollbackPlan): Permission | undefined {
  for (const node of graph.state.nodesOf(run.group)) {
    if (!isKind(node, 'confirm') || node.data.target_id !== run.id || node.data.status === 'cancelled') continue
    const gate = gateOf(graph, node.id)
    if (gate?.data.digest !== plan.digest || gate.data.used_by !== undefined) continue
    return { status: node.data.status, confirm_id: node.id, gate }
  }
  return undefined
}
