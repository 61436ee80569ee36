import { type Clock, isoMicros } from '../protocol/clock.ts'
import { ApprovalNeeded } from '../protocol/errors.ts'
import { type Digest, digestOfJson, type JsonObject } from '../protocol/json.ts'
import type { ConfirmStatus } from '../protocol/types.ts'
import type { Gate } from '../psg/change.ts'
import { newConfirm } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { confirmOf, gateOf, move } from '../psg/moves.ts'
import type { BindingSpec } from './bind.ts'
import type { Decided, Flight, LiveRun, Waiting } from './live.ts'
import { newTimer, timerFired } from './timers.ts'

/** How long a question waits for an answer when nothing else is said: a week. */
export const EXPIRES_MS = 7 * 24 * 60 * 60 * 1000

/** Must a person agree before this step's action is done? What cannot be taken back asks unless its binding says otherwise. */
export const askBefore = (binding: BindingSpec): boolean =>
  (binding.approval ?? (binding.inverse === 'irreversible' ? 'ask' : 'none')) === 'ask'

/** Puts an action up for approval. Its attempt stays open; the action waits. `news` is what people should know of it that its step does not say. */
export function askFor(
  run: LiveRun,
  flight: Flight,
  why: ApprovalNeeded | BindingSpec,
  decided: Decided,
  news?: string,
): void {
  const { clock } = run.graph
  const { action_id, action_type } = flight.action
  const confirm_id = clock.uuid()
  const gate_id = clock.uuid()
  const timer = clock.uuid()
  const step = run.graph.get('step', flight.step)!.data
  const question = why instanceof ApprovalNeeded ? why.question : bindingQuestion(run, flight, why)
  const due = clock.now() + EXPIRES_MS
  const shows: JsonObject = {
    tool: question.tool,
    arguments: question.arguments,
    step_id: flight.step,
    plan_id: run.plan,
    action_id: question.action_id, // of a tool that a model calls, not the model's
  }
  const gate: Gate = {
    gate_id,
    confirm_id,
    target: { kind: 'action', id: action_id },
    digest: question.digest,
    needed: 1,
    expires_at: isoMicros(due * 1000),
    shows,
  }
  decided.changes.push(
    newConfirm(clock, {
      confirm_id,
      target_type: 'other',
      target_id: action_id,
      requested_by_role: step.agent_role ?? 'runtime',
      reason: news === undefined ? question.description : `${question.description}: ${news}`,
    }),
    { kind: 'node_add', node: 'gate', id: gate_id, data: gate },
    newTimer(timer, run.plan, { due, purpose: 'expiry', target: confirm_id }),
    {
      kind: 'node_update',
      node: 'action',
      id: action_id,
      set: { status: 'waiting' },
    },
  )
  decided.reason = `${action_type} waits for approval`
  run.waiting.set(action_id, { on: 'confirm', confirm: confirm_id, timer, due, flight })
}

/** What people said about a waiting action; an approval is used up in the commit that lets the action go on. */
export function verdictOn(
  run: LiveRun,
  { confirm: confirmId, timer, due, flight }: Extract<Waiting, { on: 'confirm' }>,
  decided: Decided,
): ConfirmStatus {
  const status = run.graph.get('confirm', confirmId)?.data.status ?? 'pending'
  if (status === 'pending' && due > run.graph.clock.now()) return 'pending'
  timerFired(timer, decided)
  if (status === 'pending') {
    decided.changes.push(move('confirm', confirmId, 'cancelled'))
    return 'cancelled'
  }
  const gate = gateOf(run.graph, confirmId)
  if (status === 'approved' && gate && isExpired(gate.data, run.graph.clock)) return 'cancelled'
  if (status === 'approved')
    decided.changes.push(
      { kind: 'node_update', node: 'action', id: flight.action.action_id, set: { status: 'running' } },
      ...(gate
        ? [{ kind: 'node_update' as const, node: 'gate' as const, id: gate.id, set: { used_by: flight.execution_id } }]
        : []),
    )
  return status
}

/** When the approval of a plan expired that nobody has used, if it did. */
export function expiryOf(graph: ProjectGraph, plan: string): string | undefined {
  const confirm = confirmOf(graph, plan)
  const gate = confirm && gateOf(graph, confirm.id)?.data
  return gate && isExpired(gate, graph.clock) ? gate.expires_at : undefined
}

const isExpired = ({ expires_at }: Gate, clock: Clock): boolean =>
  expires_at !== undefined && Date.parse(expires_at) <= clock.now()

/** Has this very question, by its digest, been approved and used for this action? What the action layer asks before a gated tool runs. */
export function wasApproved(run: LiveRun, digest: Digest, action: string): boolean {
  for (const node of run.graph.state.nodesOf(run.plan)) {
    if (node.kind !== 'gate' || node.data.digest !== digest || node.data.used_by === undefined) continue
    if (node.data.shows?.action_id !== action) continue
    if (run.graph.get('confirm', node.data.confirm_id)?.data.status === 'approved') return true
  }
  return false
}

function bindingQuestion(run: LiveRun, flight: Flight, binding: BindingSpec) {
  const { description } = run.graph.get('step', flight.step)!.data
  const { action_type, params } = binding
  const digest = digestOfJson({ action_type, params, plan_id: run.plan, step_id: flight.step })
  const { action_id } = flight.action
  return { digest, tool: action_type, arguments: params, description: `${description} (${action_type})`, action_id }
}
