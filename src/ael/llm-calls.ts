import type { Clock } from '../protocol/clock.ts'
import { ActionError, ApprovalNeeded, InvalidInput, NotFound } from '../protocol/errors.ts'
import { type Digest, digestOfJson, type Json, type JsonObject } from '../protocol/json.ts'
import { fitted } from './action.ts'
import type { Action, ActionResult, Call, TokenUsage } from './adapter.ts'
import { passingFailure } from './failure.ts'
import type { Provider } from './llm-provider.ts'
import type { RoundAnswer } from './llm-round.ts'
import { REDACTED } from './redact.ts'
import type { CompiledSchema } from './schema.ts'
import type { RegisteredTool } from './tool-registry.ts'

export interface Conversation {
  readonly action: Action
  readonly call: Call
  readonly provider: Provider
  readonly providerName: string
  /** By wire name: nothing else can be chosen, whatever a model or a document says. */
  readonly tools: ReadonlyMap<string, RegisteredTool>
  readonly schema: CompiledSchema | undefined
  readonly cost: (usage: TokenUsage) => number | undefined
  readonly maxRounds: number
  readonly maxToolResultChars: number
  readonly clock: Clock
}

/** Where a conversation stands: enough to go on in another attempt, or another process. */
export interface State {
  readonly messages: readonly Json[]
  readonly rounds: number
  /** Calls of the last answer; those with a result have been carried out. */
  readonly pending: readonly Pending[]
  readonly made: readonly JsonObject[]
  /** How many answers were of no use. */
  readonly spoilt?: number
}

type Pending = {
  readonly id: string
  /** Among the calls of its round, from 1. */
  readonly place: number
  readonly wire: string
  readonly args: Json
  /** Of the arguments as the model gave them: what is stored of them is without secrets. Absent where an earlier version stored it. */
  readonly digest?: Digest
  readonly action_id: string
  readonly result?: JsonObject
  /** Where the call itself stood when it paused. */
  readonly resume?: Json
  /** One before it paused, and it had not begun. */
  readonly put_off?: true
}

export type Keep = (state: State) => void | Promise<void>

/** Results are told by the calls' ids: of two with the same one, nobody knows which is which. */
export function withCalls(state: State, answer: RoundAnswer, clock: Clock): State {
  const ids = new Set(answer.toolCalls.map(({ id }) => id))
  if (ids.size < answer.toolCalls.length) throw passingFailure('the model gave several calls the same id')
  const pending = answer.toolCalls.map(({ id, name, args, error }, index) => ({
    id,
    place: index + 1,
    wire: name,
    args,
    digest: digestOfJson(args),
    action_id: clock.uuid(),
    ...(error === undefined ? {} : { result: told(error) }),
  }))
  return { ...state, messages: [...state.messages, ...answer.messages], rounds: state.rounds + 1, pending }
}

/** Calls that change something run one after another, in the model's order; those that only read run side by side. */
export async function carriedOut(talk: Conversation, before: State, keep: Keep): Promise<State> {
  const { tools } = talk
  let state = before
  const record = async (done: Pending) => {
    state = { ...state, pending: state.pending.map((each) => (each.action_id === done.action_id ? done : each)) }
    await keep(state)
  }
  const open = state.pending.filter(({ result }) => result === undefined)
  const sideBySide = open.every(({ wire }) => !tools.has(wire) || tools.get(wire)?.readOnly)
  if (sideBySide) {
    const ended = await Promise.allSettled(open.map((pending) => carriedOutOne(talk, state.rounds, pending, record)))
    for (const end of ended) if (end.status === 'rejected') throw end.reason
  } else
    for (const [i, pending] of open.entries())
      await carriedOutOne(talk, state.rounds, pending, record).catch(async (error) => {
        const later = new Set(open.slice(i + 1))
        if (error instanceof ApprovalNeeded && later.size > 0)
          await keep({
            ...state,
            pending: state.pending.map((each) => (later.has(each) ? { ...each, put_off: true } : each)),
          })
        throw error
      })
  return spoken(state, tools)
}

async function carriedOutOne(
  talk: Conversation,
  round: number,
  pending: Pending,
  record: (done: Pending) => Promise<void>,
): Promise<void> {
  const { call, tools, maxToolResultChars } = talk
  const tool = tools.get(pending.wire)
  if (tool === undefined) return record({ ...pending, result: told(`there is no tool ${pending.wire}`) })
  if (pending.digest !== undefined && pending.digest !== digestOfJson(pending.args))
    return record({ ...pending, result: told(`${tool.name} ${pending.put_off ? PUT_OFF : CUT_OFF}`) })
  let result: JsonObject
  try {
    const action = actionFor(talk.action, tool, round, pending)
    const done = await call.act(action, pending.resume === undefined ? {} : { resume: pending.resume })
    result = given(done, maxToolResultChars)
  } catch (error) {
    if (call.signal.aborted || !(isForTheModel(error) || asksInVain(error, pending))) {
      const { resume } = error as { resume?: Json }
      if (resume !== undefined) await record({ ...pending, resume })
      throw error
    }
    const { message } = error as Error
    result = told(upTo(maxToolResultChars, error instanceof ApprovalNeeded ? `${tool.name} ${IN_VAIN}` : message))
  }
  await record({ ...pending, result })
}

function actionFor(parent: Action, tool: RegisteredTool, round: number, { place, args, action_id }: Pending): Action {
  const what = digestOfJson([tool.name, args]).slice(-16)
  return {
    action_id,
    action_type: 'tool_call',
    executor_kind: 'tool',
    params: { tool_name: tool.name, tool_args: args },
    // The same call at the same place of the same conversation, whatever id the provider gave it this time.
    idempotency_key: `${fitted(parent.idempotency_key || parent.action_id, 200)}.${round}.${place}.${what}`,
  }
}

/**
 * A pause, an abort and a broken journal are ours to deal with; that a tool failed or was refused, the model can live with. Told that the budget is used
 * up it would only be asked again.
 */
const isForTheModel = (error: unknown): boolean =>
  error instanceof InvalidInput || error instanceof NotFound || (error instanceof ActionError && !OURS.has(error.code))
const OURS: ReadonlySet<string> = new Set(['approval_needed', 'action_aborted', 'budget_exceeded'])

/** By the time that a person has agreed, the arguments are what was stored of them, and no longer those that were agreed to. */
const asksInVain = (error: unknown, { action_id, args }: Pending): boolean =>
  error instanceof ApprovalNeeded &&
  error.question.action_id === action_id &&
  isCovered(error.question.arguments) &&
  !isCovered(args)
const isCovered = (args: Json): boolean => JSON.stringify(args).includes(REDACTED)

const IN_VAIN =
  'was not called: a person is asked first, and its arguments hold what looks like a secret, which is not kept until there is an answer; call it without that'
const PUT_OFF =
  'was not called: another call waited for a person, and its arguments hold what looks like a secret, which is not kept meanwhile; call it again'
const CUT_OFF =
  'is not called after an interruption, before which it may have been carried out: its arguments held what looks like a secret, which is not kept'

const told = (message: string): JsonObject => ({ type: 'error-text', value: message })

function given({ output, output_ref }: ActionResult, limit: number): JsonObject {
  const text = typeof output === 'string' ? output : JSON.stringify(output ?? null)
  if (typeof output !== 'string' && text.length <= limit) return { type: 'json', value: output ?? null }
  return { type: 'text', value: upTo(limit, text, output_ref && `, the whole is ${output_ref.digest}`) }
}

/** No more than a model is shown, and no half of a character: servers take a request with one for no JSON, and the conversation could not go on. */
const upTo = (limit: number, text: string, where = ''): string =>
  text.length <= limit
    ? text.toWellFormed()
    : `${text.slice(0, limit).toWellFormed()}\n[cut: ${text.length} characters${where}]`

/** The results as a message of the conversation. */
function spoken(state: State, tools: Conversation['tools']): State {
  const content = state.pending.map(({ id, wire, result = told('nothing came of it') }) => ({
    type: 'tool-result',
    toolCallId: id,
    toolName: wire,
    output: result,
  }))
  const made = state.pending.map(({ id, wire, action_id, result }) => ({
    tool: tools.get(wire)?.name ?? wire,
    tool_call_id: id,
    action_id,
    status: result?.type === 'error-text' ? 'failed' : 'completed',
  }))
  return {
    ...state,
    messages: [...state.messages, { role: 'tool', content }],
    pending: [],
    made: [...state.made, ...made],
  }
}
