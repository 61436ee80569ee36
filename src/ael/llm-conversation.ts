import type { Clock } from '../protocol/clock.ts'
import { ActionError, ApprovalNeeded, InvalidInput, NotFound } from '../protocol/errors.ts'
import { type Digest, digestOfJson, type Json, type JsonObject } from '../protocol/json.ts'
import { under } from '../protocol/under.ts'
import { fitted } from './action.ts'
import type { Action, ActionResult, Call, Outcome, Spend, TokenUsage } from './adapter.ts'
import { finalFailure, passingFailure, toActionError, withSpent } from './failure.ts'
import { checkedModel } from './llm-checked.ts'
import { llmFailure } from './llm-failure.ts'
import type { Provider } from './llm-provider.ts'
import { askedOnce, type RoundAnswer } from './llm-round.ts'
import { usageOf } from './llm-tokens.ts'
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
interface State {
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

/** Asks the model, carries out the tools it chooses, tells it what came of them, until it answers or the rounds are used up. */
export async function conversation(talk: Conversation): Promise<Outcome> {
  const { action, call, maxRounds } = talk
  const model = String(action.params.model)
  let used: TokenUsage = { prompt: 0, completion: 0, total: 0 }
  const pays = (usage: TokenUsage): void => {
    used = added(used, usage)
  }
  const spent = (): Spend | undefined => {
    if (used.total === 0) return undefined
    const cost = talk.cost(used)
    return { tokens: used.total, ...(cost === undefined ? {} : { cost }) }
  }
  const keep: Keep = (state) => call.checkpoint(state as unknown as Json, spent())
  try {
    let state = begun(call.resume, action.params)
    for (;;) {
      // Before its tools are called: nobody would be told what came of them.
      if (state.rounds >= maxRounds)
        throw finalFailure(
          `${model} did not come to an answer in ${maxRounds} rounds; let it have more by max_rounds, or by actions.max_rounds in the config (maxRounds of the adapter)`,
        )
      if (state.pending.length > 0) state = await carriedOut(talk, state, keep)
      const answer = await asked(talk, state, pays)
      try {
        if (answer.finishReason === 'error') throw brokenOff(model, answer)
        if (answer.toolCalls.length === 0) return await concluded(talk, state, answer, used)
        state = withCalls(state, answer, talk.clock)
      } catch (error) {
        await keep({ ...state, spoilt: (state.spoilt ?? 0) + 1 })
        throw error
      }
      await keep(state)
    }
  } catch (error) {
    const known = spent()
    throw known ? withSpent(toActionError(error), known) : error
  }
}

/** What it says then is no answer, as where it meant to call a tool and came to nothing that can be read. It may the next time. */
const brokenOff = (model: string, { rawFinishReason = 'error' }: RoundAnswer) =>
  passingFailure(`${model} ended its answer for a reason that is an error: ${rawFinishReason}`)

type Keep = (state: State) => void | Promise<void>

/** What it was asked is taken from the action itself: what was stored of it is without secrets, and a link with a token in it leads nowhere then. */
function begun(resume: Json | undefined, { system, messages }: JsonObject): State {
  const first = typeof system === 'string' ? [{ role: 'system', content: system }] : []
  const question = [...first, ...(messages as readonly Json[])]
  if (resume === undefined) return { messages: question, rounds: 0, pending: [], made: [] }
  const state = resume as unknown as State
  return { ...state, messages: [...question, ...state.messages.slice(question.length)] }
}

async function asked(
  talk: Conversation,
  { messages, rounds, spoilt }: State,
  pays: (usage: TokenUsage) => void,
): Promise<RoundAnswer> {
  const { action, call, tools, schema, clock } = talk
  const { params, idempotency_key } = action
  // Whoever is asked again for another answer must not be given the same one.
  const place = [rounds + 1, ...(spoilt === undefined ? [] : [spoilt])].join('.')
  const key = idempotency_key === '' ? {} : { 'idempotency-key': `${fitted(idempotency_key, 240)}.${place}` }
  let heard = ''
  const onHeard = (delta: string) => {
    heard += delta
  }
  try {
    const answer = await askedOnce({
      model: checkedModel(await talk.provider.model(String(params.model)), talk.providerName),
      messages,
      tools,
      schema: schema?.json,
      params: rounds > 0 && params.tool_choice !== undefined ? unforced(params) : params,
      headers: key,
      signal: call.signal,
      onDelta: params.stream === true ? call.onDelta : undefined,
      onHeard,
    })
    pays(answer.usage)
    return answer
  } catch (error) {
    if (heard !== '') pays(usageOf({}, { messages, tools: tools.values(), schema: schema?.json }, heard)) // what broke off is paid for all the same
    throw llmFailure(error, String(params.model), call.signal, clock.now())
  }
}

/** What a model must choose it must choose once: one that had to in every round would never come to an answer. */
const unforced = (params: JsonObject): JsonObject => ({
  ...params,
  tool_choice: params.tool_choice === 'none' ? 'none' : 'auto',
})

/** Results are told by the calls' ids: of two with the same one, nobody knows which is which. */
function withCalls(state: State, answer: RoundAnswer, clock: Clock): State {
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
async function carriedOut(talk: Conversation, before: State, keep: Keep): Promise<State> {
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

async function concluded(talk: Conversation, state: State, answer: RoundAnswer, used: TokenUsage): Promise<Outcome> {
  const { text, reasoning, finishReason, warnings } = answer
  const object = talk.schema === undefined ? {} : { object: await objectIn(text, talk.schema, finishReason) }
  const cost = talk.cost(used)
  return {
    token_usage: used,
    ...(cost === undefined ? {} : { cost }),
    output: {
      text,
      ...object,
      ...(reasoning === '' ? {} : { reasoning }),
      model: String(talk.action.params.model),
      finish_reason: finishReason,
      rounds: state.rounds + 1,
      ...(state.made.length > 0 && { tool_calls: state.made }),
      ...(warnings.length > 0 && { warnings }),
    },
  }
}

/** A model that misses the shape may meet it the next time. */
async function objectIn(text: string, schema: CompiledSchema, finishReason: string): Promise<Json> {
  let object: Json
  try {
    object = JSON.parse(text)
  } catch (cause) {
    throw passingFailure(`the model's answer is not JSON (${finishReason})`, { cause })
  }
  const problems = await schema.problems(object)
  if (problems.length === 0) return object
  const cause = new InvalidInput("the model's answer", under('object', problems))
  throw passingFailure(cause.message, { cause })
}

const added = (a: TokenUsage, b: TokenUsage): TokenUsage => ({
  prompt: a.prompt + b.prompt,
  completion: a.completion + b.completion,
  total: a.total + b.total,
})
