import { InvalidInput } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { under } from '../protocol/under.ts'
import { fitted } from './action.ts'
import type { Outcome, Spend, TokenUsage } from './adapter.ts'
import { finalFailure, passingFailure, toActionError, withSpent } from './failure.ts'
import { type Conversation, carriedOut, type Keep, type State, withCalls } from './llm-calls.ts'
import { checkedModel } from './llm-checked.ts'
import { llmFailure } from './llm-failure.ts'
import { askedOnce, type RoundAnswer } from './llm-round.ts'
import { usageOf } from './llm-tokens.ts'
import type { CompiledSchema } from './schema.ts'

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
