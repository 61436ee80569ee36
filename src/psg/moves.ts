import { isReachable } from '../protocol/check-approvers.ts'
import { isoNow } from '../protocol/clock.ts'
import { InvalidInput, NotFound, type Problem, RuleViolation } from '../protocol/errors.ts'
import type { Digest, JsonObject } from '../protocol/json.ts'
import { confirmMayMove, isTerminal } from '../protocol/lifecycle.ts'
import { blaming, problem } from '../protocol/problem.ts'
import type { ConfirmStatus, Decision, DecisionStatus, PlanStatus } from '../protocol/types.ts'
import { planDigest, verdict } from './approval.ts'
import type { Change, Gate, Node } from './change.ts'
import { confirmOf, counting, decisionNodes, gateOf, newConfirm } from './confirm.ts'
import type { ProjectGraph } from './graph.ts'
import { checkName } from './input.ts'
import { ofKind } from './node.ts'

export interface Proposing {
  readonly requested_by_role: string
  readonly reason?: string
  /** How many roles must approve, and which may. Unless told: as when the plan was last put up, else 1 of any. */
  readonly needed?: number
  readonly roles?: readonly string[]
  readonly expires_at?: string
  readonly shows?: JsonObject
}

/** Puts a plan up for approval: the plan as it stands now is what the Confirm's decisions will allow. A Confirm of the plan that is still open is asked again. */
export function proposePlan(graph: ProjectGraph, planId: string, options: Proposing): readonly Change[] {
  refuseUnlessDecidable(options)
  const plan = loaded(graph, 'plan', planId)
  const { clock } = graph
  const last = confirmOf(graph, planId)
  const before = last && gateOf(graph, last.id)?.data
  const { needed = before?.needed ?? 1, roles = before?.roles } = options
  refuseUnlessReachable(needed, roles)
  const open = last && !isTerminal('confirm', last.data.status) ? last : undefined // else it was the last word, and a new one asks
  const confirm_id = open?.id ?? clock.uuid()
  const gate: Gate = {
    gate_id: clock.uuid(),
    confirm_id,
    target: { kind: 'plan', id: planId },
    digest: planDigest(plan, graph.state.nodesOf(plan.group)),
    needed,
    ...(roles && { roles }),
    ...(options.expires_at !== undefined && { expires_at: options.expires_at }),
    ...(options.shows && { shows: options.shows }),
  }
  const { requested_by_role, reason } = options
  const asks = { confirm_id, target_type: 'plan', target_id: planId, requested_by_role } as const
  const asked: Change[] = open
    ? open.data.status === 'pending'
      ? []
      : [move('confirm', confirm_id, 'pending')]
    : [newConfirm(clock, { ...asks, ...(reason !== undefined && { reason }) })]
  return [move('plan', planId, 'proposed'), ...asked, { kind: 'node_add', node: 'gate', id: gate.gate_id, data: gate }]
}

export interface Deciding {
  readonly status: DecisionStatus
  readonly decided_by_role: string
  readonly reason?: string
  /** Chosen by whoever must know the decision again; minted when absent. */
  readonly decision_id?: string
  /** The gate's digest of what was seen before deciding: refused once something else is up for decision. */
  readonly digest?: Digest
}

/** Adds a decision and lets what follows from it follow: the Confirm's verdict, and the plan that waits for it. */
export function decide(graph: ProjectGraph, confirmId: string, deciding: Deciding): readonly Change[] {
  const confirm = loaded(graph, 'confirm', confirmId)
  const gate = gateOf(graph, confirmId)
  refuseUnlessDecision(deciding, gate?.data.digest)
  const earlier = decisionNodes(graph, confirmId)
  const decision: Decision = {
    decision_id: deciding.decision_id ?? graph.clock.uuid(),
    status: deciding.status,
    decided_by_role: deciding.decided_by_role,
    decided_at: isoNow(graph.clock),
    ...(deciding.reason !== undefined && { reason: deciding.reason }),
  }
  const says = verdict(gate?.data, [...counting(earlier, gate), decision])
  refuseIfDecided(graph, confirm, says, earlier.at(-1)?.data)
  const changes: Change[] = [
    {
      kind: 'node_add',
      node: 'decision',
      id: decision.decision_id,
      owner: confirmId,
      at: earlier.length,
      data: decision,
    },
  ]
  if (says === confirm.data.status) return changes
  changes.push(move('confirm', confirmId, says))
  const plan = confirm.data.target_type === 'plan' ? graph.get('plan', confirm.data.target_id) : undefined
  if (plan?.data.status !== 'proposed') return changes
  if (says === 'approved') changes.push(move('plan', plan.id, 'approved'))
  else if (says === 'rejected') changes.push(move('plan', plan.id, 'draft'))
  else if (says === 'cancelled') return changes.concat(endPlan(graph, plan.id, 'cancelled'))
  return changes
}

/** Its rules would each say so in their own words, of a decision that has no name yet. */
function refuseIfDecided(
  graph: ProjectGraph,
  { id, data }: Node<'confirm'>,
  says: ConfirmStatus,
  last: Decision | undefined,
): void {
  const { status } = data
  const isFurther = status === 'pending' && says === status // others must agree too
  if (isFurther || confirmMayMove(data, says)) return
  const by = last?.status === status ? `, by ${last.decided_by_role}` : ''
  throw new RuleViolation(graph.id, [
    { rule: 'decision.allowed', node: id, path: 'status', message: `confirm ${id} is ${status} already${by}` },
  ])
}

/** Starts an approved plan and uses its approval up. */
export function startPlan(graph: ProjectGraph, planId: string, usedBy: string): readonly Change[] {
  const confirm = confirmOf(graph, planId)
  const gate = confirm && gateOf(graph, confirm.id)
  const used: Change[] = gate ? [{ kind: 'node_update', node: 'gate', id: gate.id, set: { used_by: usedBy } }] : []
  return [move('plan', planId, 'in_progress'), ...used]
}

/**
 * Ends a plan and its open steps with it: what ran has failed, what waited is skipped, and a question about it that nobody answered is withdrawn,
 * unless it is locked: a plan that somebody has imported a locked question about could not end. `ended` names steps that other changes of the commit end.
 */
export function endPlan(
  graph: ProjectGraph,
  planId: string,
  status: Extract<PlanStatus, 'completed' | 'failed' | 'cancelled'>,
  ended: ReadonlySet<string> = new Set(),
): readonly Change[] {
  const plan = loaded(graph, 'plan', planId)
  const changes: Change[] = [move('plan', planId, status)]
  for (const { id, data } of ofKind(graph.state.referrers('plan', planId, 'CONFIRMS'), 'confirm'))
    if (data.status === 'pending' && !data.governance?.locked) changes.push(move('confirm', id, 'cancelled'))
  const { pending, blocked, in_progress } = graph.state.plan(planId)!.tally
  if (pending + blocked + in_progress === ended.size) return changes
  for (const { id, data } of ofKind(graph.state.nodesOf(plan.group), 'step')) {
    if (ended.has(id)) continue
    if (data.status === 'in_progress') changes.push(move('step', id, 'failed'))
    else if (data.status === 'pending' || data.status === 'blocked') changes.push(move('step', id, 'skipped'))
  }
  return changes
}

/** Takes a step away, and how it was to be executed with it. */
export const removeStep = ({ state }: ProjectGraph, step: string): readonly Change[] => [
  { kind: 'node_delete', node: 'step', id: step },
  ...[...state.referrers('step', step, 'BINDS')].map(
    ({ id }) => ({ kind: 'node_delete', node: 'binding', id }) as const,
  ),
]

export const move = (
  node: 'plan' | 'step' | 'confirm' | 'trace' | 'context' | 'dialog' | 'collab',
  id: string,
  status: string,
): Change => ({ kind: 'node_update', node, id, set: { status } }) as Change

function loaded<K extends 'plan' | 'confirm'>(graph: ProjectGraph, kind: K, id: string) {
  checkName(kind, id)
  const node = graph.get(kind, id)
  if (!node) throw new NotFound(kind, id)
  return node
}

function refuseUnlessDecidable(options: Proposing): void {
  const { requested_by_role, needed = 1, roles, expires_at } = Object(options) as Proposing
  const problems: Problem[] = []
  const refuse = blaming(problems)
  if (typeof requested_by_role !== 'string')
    refuse('requested_by_role', 'text', 'does not name a role', requested_by_role)
  if (!Number.isSafeInteger(needed) || needed < 1) refuse('needed', 'minimum', 'must be a whole number above 0', needed)
  if (roles !== undefined && !(Array.isArray(roles) && roles.every((role) => typeof role === 'string')))
    refuse('roles', 'type', 'is not a list of roles', roles)
  if (expires_at !== undefined && !(typeof expires_at === 'string' && Date.parse(expires_at) > 0))
    refuse('expires_at', 'format', 'is not a time', expires_at)
  if (problems.length > 0) throw new InvalidInput('proposal', problems)
}

function refuseUnlessReachable(needed: number, roles: readonly string[] | undefined): void {
  if (isReachable(needed, roles)) return
  throw new InvalidInput('proposal', [problem('needed', 'reachable', 'cannot be reached with these roles', needed)])
}

function refuseUnlessDecision(deciding: Deciding, current: Digest | undefined): void {
  const { status, decided_by_role, digest } = Object(deciding) as Deciding
  const problems: Problem[] = []
  const refuse = blaming(problems)
  if (!DECISIONS.includes(status)) refuse('status', 'enum', `is none of ${DECISIONS.join(', ')}`, status)
  if (typeof decided_by_role !== 'string' || decided_by_role === '')
    refuse('decided_by_role', 'text', 'does not name a role', decided_by_role)
  if (digest !== undefined && digest !== current)
    refuse('digest', 'approval.bound', 'is not of what is up for decision now', digest)
  if (problems.length > 0) throw new InvalidInput('decision', problems)
}
const DECISIONS: readonly DecisionStatus[] = ['approved', 'rejected', 'cancelled']
