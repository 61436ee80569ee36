import { beginningOf } from '../ael/excerpt.ts'
import type { Decision as Answer } from '../ael/layer.ts'
import type { Approvers, AskPeople } from '../protocol/approvers.ts'
import { type Clock, isoMicros } from '../protocol/clock.ts'
import { ApprovalNeeded, type ApprovalQuestion } from '../protocol/errors.ts'
import { type Digest, digestOfJson, type JsonObject, roughBytes } from '../protocol/json.ts'
import type { ConfirmStatus } from '../protocol/types.ts'
import { isOnTheWay } from '../psg/approval.ts'
import type { Gate } from '../psg/change.ts'
import { answerTo, confirmOf, decisionNodes, gateOf, isExpired, isUnanswered, newConfirm } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { move } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import type { BindingSpec } from './bind.ts'
import type { Asked, Decided, Flight, LiveRun } from './live.ts'
import { outcomeAfter } from './outcome.ts'
import { filledToSee, THIS_STEP } from './references.ts'
import { setAction } from './set-action.ts'
import { fired, newTimer } from './timers.ts'

/** How long a question waits for an answer when nothing else is said: a week. */
const EXPIRES_MS = 7 * 24 * 60 * 60 * 1000

export const expiryAt = (clock: Pick<Clock, 'now'>, { expires_ms = EXPIRES_MS }: Approvers): number =>
  clock.now() + expires_ms

/** How many must agree, and who may. */
export const voicesOf = ({ needed = 1, roles }: Approvers): Pick<Gate, 'needed' | 'roles'> => ({
  needed,
  ...(roles && { roles }),
})

/** Must a person agree before this step's action is done? What cannot be taken back asks unless its binding says otherwise. */
export const askBefore = (binding: BindingSpec): boolean =>
  (binding.approval ?? (binding.inverse === 'irreversible' ? 'ask' : 'none')) !== 'none'

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
  const question: Question = why instanceof ApprovalNeeded ? why.question : bindingQuestion(run, flight, why, decided)
  const { description, approvers = {} } = question
  const due = expiryAt(clock, approvers)
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
    ...voicesOf(approvers),
    expires_at: isoMicros(due * 1000),
    shows,
  }
  decided.changes.push(
    newConfirm(clock, {
      confirm_id,
      target_type: 'other',
      target_id: action_id,
      requested_by_role: approvers.requested_by_role ?? step.agent_role ?? 'runtime',
      reason: news === undefined ? description : `${description}: ${news}`,
    }),
    { kind: 'node_add', node: 'gate', id: gate_id, data: gate },
    newTimer(timer, run.plan, { due, purpose: 'expiry', target: confirm_id }),
  )
  decided.shown += roughBytes(shows)
  setAction(decided, action_id, { status: 'waiting' })
  decided.reason = `${action_type} waits for approval`
  run.waiting.set(action_id, { on: 'confirm', confirm: confirm_id, timer, due, flight })
}

/** What people said about a waiting action; cancelled when the time to say it, or to make use of it, is over. */
export function verdictOn({ graph }: LiveRun, { confirm, due }: Asked): ConfirmStatus {
  const status = answerTo(graph, confirm)
  if (status === 'pending') return due > graph.now ? status : 'cancelled'
  const gate = status === 'approved' ? gateOf(graph, confirm) : undefined
  return gate && isExpired(gate.data, graph) ? 'cancelled' : status
}

/** Is its action to go on, whatever was said? */
export function goesOnAnyhow({ graph }: LiveRun, { confirm }: Asked): boolean {
  const gate = gateOf(graph, confirm)
  return gate !== undefined && isOnTheWay(gate.data)
}

/** Why a waiting action is not done. */
export function whyNot({ graph }: LiveRun, { confirm, due, flight }: Asked, verdict: ConfirmStatus): string {
  const what = String(gateOf(graph, confirm)?.data.shows?.tool ?? flight.action.action_type)
  if (verdict !== 'rejected')
    return `${what} ${due <= graph.now ? 'had no approval in time' : `was ${verdict} by a person`}`
  const { decided_by = 'a person', reason } = lastWord(graph, confirm)
  return `${what} was rejected by ${decided_by}${reason === undefined ? '' : `: ${reason}`}`
}

function lastWord(graph: ProjectGraph, confirm: string): Pick<Answer, 'decided_by' | 'reason'> {
  const { decided_by_role, reason } = decisionNodes(graph, confirm).at(-1)?.data ?? {}
  return { ...(decided_by_role && { decided_by: decided_by_role }), ...(reason && { reason: beginningOf(reason) }) }
}

/** Takes the verdict in; an approval is used up in the commit that lets the action go on. */
export function takeVerdict(run: LiveRun, asked: Asked, verdict: ConfirmStatus, decided: Decided): void {
  const { graph } = run
  const { confirm, timer, flight } = asked
  decided.changes.push(fired(timer))
  if (isUnanswered(graph, confirm)) decided.changes.push(move('confirm', confirm, 'cancelled'))
  const { action, execution_id: used_by } = flight
  if (verdict === 'approved' || goesOnAnyhow(run, asked)) setAction(decided, action.action_id, { status: 'running' })
  const gate = verdict === 'approved' ? gateOf(graph, confirm) : undefined
  if (gate) decided.changes.push({ kind: 'node_update', node: 'gate', id: gate.id, set: { used_by } })
}

/** When the approval of a plan expired, if it has. */
export function expiryOf(graph: ProjectGraph, plan: string): string | undefined {
  const confirm = confirmOf(graph, plan)
  const gate = confirm && gateOf(graph, confirm.id)?.data
  return gate && isExpired(gate, graph) ? gate.expires_at : undefined
}

/** What people said to this very question, by its digest, about this action: what the action layer asks before a gated tool runs. */
export function answerOn({ graph }: LiveRun, step: string, digest: Digest, action: string): Answer {
  for (const gate of gatesOf(graph, step)) {
    if (gate.digest !== digest || gate.shows?.action_id !== action) continue
    const { confirm_id, used_by } = gate
    const said = answerTo(graph, confirm_id)
    if (said === 'approved' && used_by !== undefined) return { verdict: 'approved' }
    if (said === 'rejected') return { verdict: 'rejected', ...lastWord(graph, confirm_id) }
    if (said === 'cancelled' || isExpired(gate, graph))
      return { verdict: 'rejected', reason: 'it had no approval in time' }
  }
  return { verdict: 'pending' }
}

/** All that people were asked about the actions of a step. */
function* gatesOf({ state }: ProjectGraph, step: string): Iterable<Gate> {
  for (const action of ofKind(state.referrers('step', step, 'EXECUTES'), 'action'))
    for (const confirm of state.referrers('action', action.id, 'CONFIRMS'))
      for (const { data } of ofKind(state.referrers('confirm', confirm.id, 'GATES'), 'gate')) yield data
}

interface Question extends ApprovalQuestion {
  readonly approvers?: AskPeople
}

function bindingQuestion(run: LiveRun, flight: Flight, binding: BindingSpec, { changes }: Decided): Question {
  const { action_type, approval } = binding
  const { state } = run.graph
  const outcome = (from: string) => outcomeAfter(state, changes, from === THIS_STEP ? flight.step : from)
  const params = filledToSee(binding.params, outcome, flight.turn)
  const { description } = run.graph.get('step', flight.step)!.data
  const approvers = typeof approval === 'object' ? approval : {}
  return {
    digest: digestOfJson({ action_type, params, plan_id: run.plan, step_id: flight.step }),
    tool: action_type,
    arguments: params,
    description: approvers.reason ?? `${description} (${action_type})`,
    action_id: flight.action.action_id,
    approvers,
  }
}
