import { type Clock, systemClock } from '../protocol/clock.ts'
import { ActionError, ApprovalNeeded, InvalidInput, type Problem } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import { type Digest, digestOfJson, type Json, type JsonObject } from '../protocol/json.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import { checkRepeatable } from './action.ts'
import type { Action, Adapter, Approval, ApprovalPolicy, Asker, RunRef } from './adapter.ts'
import { admissionIn, approvalIn } from './approval.ts'
import { decorated, type Passage } from './decorate.ts'
import { labelOf } from './events.ts'
import { aborted, denied, orAborted } from './failure.ts'
import { inTime } from './in-time.ts'
import type { Admission, Decision, GateRequest, Hands } from './layer.ts'
import { isPromised, isThenable } from './promised.ts'
import { isReadOnly } from './read-only.ts'
import { type Redactor, redactor } from './redact.ts'
import { secretsOf } from './secrets.ts'

export interface AdmissionOptions extends Pick<Hands, 'admit' | 'gate'> {
  readonly redactor?: Redactor
  /** How long an adapter may take to check or to say who must agree, when neither action nor adapter says: 30 s. */
  readonly timeoutMs?: number
  readonly clock?: Clock
}

export function withAdmission(adapter: Adapter, options: AdmissionOptions = {}): Adapter {
  const { admit, gate, redactor: redact = redactor(() => secretsOf(adapter)) } = options

  return decorated(adapter, async (action, call) => {
    if (call.signal.aborted) throw aborted(action.action_type, call.signal)
    const asker = askerOf(call)
    const answered: Answered = (answer) => unlessCalledOff(answer, call, action.action_type)
    await checkParams(adapter, action, asker, redact, options, answered)
    const asked = adapter.approval && answered(adapter.approval(action.params, asker))
    const said = await unlessLate(asked, 'the approval', adapter, action, options)
    const approval = adapter.approval ? approvalIn(said!, action.action_type) : unasked(adapter, action)
    const { tool } = approval
    const admission =
      admit &&
      admissionIn(
        await answered(admit({ action, tool, read_only: isReadOnly(adapter, action.params), ...asker })),
        tool,
      )
    const policy = admittedPolicy(approval, admission, redact)
    if (policy === 'ask') await pass(gate, action, approval, call, redact)
    return await adapter.execute(action, call)
  })
}

/** Throws InvalidInput or NotFound, without secrets, for what no attempt could do. */
export async function checkParams(
  adapter: Adapter,
  action: Action,
  asker: Asker,
  redact: Redactor,
  limits: Limits,
  answered: Answered = (answer) => answer,
): Promise<void> {
  try {
    const checking = adapter.check?.(action.params, asker)
    if (checking) await unlessLate(answered(checking), 'the check', adapter, action, limits)
    checkRepeatable(action, isReadOnly(adapter, action.params))
  } catch (error) {
    throw redact.error(error)
  }
}

/** What an adapter has against parameters, without waiting for it. Whatever else becomes of its check is told when the action is due. */
export function toldAtOnce(adapter: Adapter, params: JsonObject, asker: Asker, redact: Redactor): readonly Problem[] {
  try {
    isPromised(adapter.check?.(params, asker))
    return []
  } catch (error) {
    const told: unknown = redact.error(error)
    return told instanceof InvalidInput ? told.problems : []
  }
}

type Limits = Pick<AdmissionOptions, 'timeoutMs' | 'clock'>

/** It may take as long as an attempt. Without a promise nothing is late, and no time is taken. */
function unlessLate<T>(answer: T | Promise<T>, what: string, adapter: Adapter, action: Action, limits: Limits) {
  if (!isThenable(answer)) return answer
  const { action_type, timeout_ms = adapter.timeoutMs ?? limits.timeoutMs ?? 30_000 } = action
  const whose = `${what} of the adapter for actions of type ${action_type}`
  return inTime(Promise.resolve(answer), timeout_ms, whose, limits.clock ?? systemClock)
}

type Answered = <T>(answer: T | Promise<T>) => T | Promise<T>

/** Who is asked before anything begins may never answer: whoever calls the action off, or closes the layer, does not wait for that. */
function unlessCalledOff<T>(answer: T | Promise<T>, call: Passage, what: string): T | Promise<T> {
  if (!isThenable(answer)) return answer
  const { signal, unlink } = eitherOf(call.signal, call.shutdown)
  return orAborted(Promise.resolve(answer), signal, what).finally(unlink)
}

export const approvalDigest = (tool: string, args: Json, run: RunRef | undefined): Digest =>
  digestOfJson({
    tool,
    arguments: args,
    run: run === undefined ? null : { plan_id: run.plan_id, step_id: run.step_id },
  })

function askerOf({ role, run }: Passage): Asker {
  if (role === undefined) return run === undefined ? {} : { run }
  return run === undefined ? { role } : { role, run }
}

function unasked(adapter: Adapter, action: Action): Approval {
  const tool = labelOf(adapter, action.params, action.action_type)
  return { policy: 'always_allow', tool, arguments: action.params, description: `Run ${tool}?` }
}

const STRICTNESS: readonly ApprovalPolicy[] = ['always_allow', 'ask', 'blocked']

function admittedPolicy(approval: Approval, admission: Admission | undefined, redact: Redactor): ApprovalPolicy {
  if (admission?.allowed === false) throw denied(`${approval.tool} is denied: ${redact.text(admission.reason)}`)
  const policies = [approval.policy, admission?.policy ?? 'always_allow']
  const policy = STRICTNESS.findLast((strict) => policies.includes(strict)) ?? 'blocked'
  if (policy === 'blocked') throw denied(`${approval.tool} is blocked by policy`)
  return policy
}

async function pass(
  gate: Hands['gate'],
  action: Action,
  approval: Approval,
  call: Passage,
  redact: Redactor,
): Promise<void> {
  const { signal, unlink } = eitherOf(call.signal, call.shutdown)
  const question = questionOf(action, approval, call, signal, redact)
  try {
    const asked: Promise<Decision> = gate === undefined ? NOBODY : Promise.resolve(gate(question))
    const decision = await orAborted(call.untimed(asked), signal, question.tool)
    refuseUnlessApproved(decision, question)
  } finally {
    unlink()
  }
}

function questionOf(
  action: Action,
  approval: Approval,
  call: Passage,
  signal: AbortSignal,
  redact: Redactor,
): GateRequest {
  const { approvers } = approval
  return {
    digest: approvalDigest(approval.tool, approval.arguments, call.run),
    tool: approval.tool,
    arguments: redact.json(approval.arguments),
    description: redact.text(approval.description),
    ...given({ approvers }),
    action_id: action.action_id,
    action_type: action.action_type,
    signal,
    ...askerOf(call),
  }
}

function refuseUnlessApproved({ verdict, decided_by, reason }: Decision, question: GateRequest): void {
  if (verdict === 'approved') return
  const { digest, action_id, tool, arguments: args, description, approvers } = question
  if (verdict !== 'rejected')
    throw new ApprovalNeeded({ digest, action_id, tool, arguments: args, description, ...given({ approvers }) })
  const by = decided_by === undefined ? '' : ` by ${decided_by}`
  throw new ActionError('action_rejected', `${tool} was rejected${by}${reason === undefined ? '' : `: ${reason}`}`)
}

const NOBODY: Promise<Decision> = Promise.resolve({ verdict: 'pending' })
