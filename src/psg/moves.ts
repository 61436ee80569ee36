import { isoMicros } from '../protocol/clock.ts'
import { NotFound } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Decision, DecisionStatus, PlanStatus } from '../protocol/types.ts'
import { planDigest, verdict } from './approval.ts'
import type { Change, Gate, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { isKind } from './node.ts'

export interface Proposing {
  readonly requested_by_role: string
  readonly reason?: string
  /** How many roles must approve; 1 unless told. */
  readonly needed?: number
  readonly roles?: readonly string[]
  readonly expires_at?: string
  readonly shows?: JsonObject
}

/** Puts a plan up for approval: the plan as it stands now is what the Confirm's decisions will allow. A rejected Confirm of the plan is reopened. */
export function proposePlan(graph: ProjectGraph, planId: string, options: Proposing): readonly Change[] {
  const plan = loaded(graph, 'plan', planId)
  const { clock } = graph
  const earlier = confirmOf(graph, planId)
  const confirm_id = earlier?.id ?? clock.uuid()
  const gate: Gate = {
    gate_id: clock.uuid(),
    confirm_id,
    target: { kind: 'plan', id: planId },
    digest: planDigest(plan, graph.state.nodesOf(plan.group)),
    needed: options.needed ?? 1,
    ...(options.roles && { roles: options.roles }),
    ...(options.expires_at !== undefined && { expires_at: options.expires_at }),
    ...(options.shows && { shows: options.shows }),
  }
  const asked: Change = earlier
    ? { kind: 'node_update', node: 'confirm', id: confirm_id, set: { status: 'pending' } }
    : {
        kind: 'node_add',
        node: 'confirm',
        id: confirm_id,
        data: {
          meta: { protocol_version: '1.0.0', schema_version: '1.0.0' },
          confirm_id,
          target_type: 'plan',
          target_id: planId,
          status: 'pending',
          requested_by_role: options.requested_by_role,
          requested_at: isoMicros(clock.now() * 1000),
          ...(options.reason !== undefined && { reason: options.reason }),
          decisions: [],
        },
      }
  return [move('plan', planId, 'proposed'), asked, { kind: 'node_add', node: 'gate', id: gate.gate_id, data: gate }]
}

export interface Deciding {
  readonly status: DecisionStatus
  readonly decided_by_role: string
  readonly reason?: string
}

/** Adds a decision and lets what follows from it follow: the Confirm's verdict, and the plan that waits for it. */
export function decide(graph: ProjectGraph, confirmId: string, deciding: Deciding): readonly Change[] {
  const confirm = loaded(graph, 'confirm', confirmId)
  const decisions = decisionsOf(graph, confirmId)
  const decision: Decision = {
    decision_id: graph.clock.uuid(),
    status: deciding.status,
    decided_by_role: deciding.decided_by_role,
    decided_at: isoMicros(graph.clock.now() * 1000),
    ...(deciding.reason !== undefined && { reason: deciding.reason }),
  }
  const says = verdict(gateOf(graph, confirmId)?.data, [...decisions, decision])
  const changes: Change[] = [
    {
      kind: 'node_add',
      node: 'decision',
      id: decision.decision_id,
      owner: confirmId,
      at: decisions.length,
      data: decision,
    },
  ]
  if (says === confirm.data.status) return changes
  changes.push(move('confirm', confirmId, says))
  const plan = confirm.data.target_type === 'plan' ? graph.get('plan', confirm.data.target_id) : undefined
  if (plan?.data.status !== 'proposed') return changes
  if (says === 'approved') changes.push(move('plan', plan.id, 'approved'))
  else if (says === 'rejected') changes.push(move('plan', plan.id, 'draft'))
  else if (says === 'cancelled') changes.push(...endPlan(graph, plan.id, 'cancelled'))
  return changes
}

/** Starts an approved plan and uses its approval up. */
export function startPlan(graph: ProjectGraph, planId: string, usedBy: string): readonly Change[] {
  const confirm = confirmOf(graph, planId)
  const gate = confirm && gateOf(graph, confirm.id)
  const used: Change[] = gate ? [{ kind: 'node_update', node: 'gate', id: gate.id, set: { used_by: usedBy } }] : []
  return [move('plan', planId, 'in_progress'), ...used]
}

/** Ends a plan and its open steps with it: what ran has failed, what waited is skipped. `ended` names steps that other changes of the commit end. */
export function endPlan(
  graph: ProjectGraph,
  planId: string,
  status: Extract<PlanStatus, 'completed' | 'failed' | 'cancelled'>,
  ended: ReadonlySet<string> = new Set(),
): readonly Change[] {
  const plan = loaded(graph, 'plan', planId)
  const changes: Change[] = [move('plan', planId, status)]
  const { pending, blocked, in_progress } = graph.state.plan(planId)!.tally
  if (pending + blocked + in_progress === ended.size) return changes
  for (const step of graph.state.nodesOf(plan.group)) {
    if (!isKind(step, 'step') || ended.has(step.id)) continue
    if (step.data.status === 'in_progress') changes.push(move('step', step.id, 'failed'))
    else if (step.data.status === 'pending' || step.data.status === 'blocked')
      changes.push(move('step', step.id, 'skipped'))
  }
  return changes
}

export const move = (
  node: 'plan' | 'step' | 'confirm' | 'trace' | 'context' | 'dialog' | 'collab',
  id: string,
  status: string,
): Change => ({ kind: 'node_update', node, id, set: { status } }) as Change

/** The Confirm that a plan was last put up for approval with. */
export function confirmOf(graph: ProjectGraph, planId: string): Node<'confirm'> | undefined {
  let latest: Node<'confirm'> | undefined
  for (const node of graph.state.referrers('plan', planId, 'CONFIRMS'))
    if (isKind(node, 'confirm') && gateOf(graph, node.id) && (!latest || node.born > latest.born)) latest = node
  return latest
}

/** The gate that a Confirm's decisions count for now. */
export function gateOf(graph: ProjectGraph, confirmId: string): Node<'gate'> | undefined {
  let latest: Node<'gate'> | undefined
  for (const node of graph.state.referrers('confirm', confirmId, 'GATES'))
    if (isKind(node, 'gate') && (!latest || node.born > latest.born)) latest = node
  return latest
}

export function decisionsOf(graph: ProjectGraph, confirmId: string): readonly Decision[] {
  const decisions = [...graph.state.targets('confirm', confirmId, 'CONTAINS')].filter((node) =>
    isKind(node, 'decision'),
  )
  return decisions.sort((a, b) => (a.at ?? 0) - (b.at ?? 0)).map((node) => node.data)
}

function loaded<K extends 'plan' | 'confirm'>(graph: ProjectGraph, kind: K, id: string) {
  const node = graph.get(kind, id)
  if (!node) throw new NotFound(kind, id)
  return node
}
