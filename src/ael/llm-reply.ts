import type { Problem } from '../protocol/errors.ts'
import { amount, anything, type Field, type Fields, flag, needed, problemsIn, text } from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'

/** What a scripted model says: plain text, or any of these. */
export type Reply = string | ReplyParts

export interface ReplyParts {
  readonly text?: string
  /** As JSON text, for a schema. */
  readonly object?: Json
  readonly reasoning?: string
  /** By the tools' registered names. */
  readonly tool_calls?: readonly { readonly tool: string; readonly args: JsonObject }[]
  /** Counted by length when absent. */
  readonly usage?: { readonly prompt: number; readonly completion: number }
  /** Fails instead; the next entry of the script is what the following attempt gets. */
  readonly error?: { readonly message: string; readonly retryable?: boolean; readonly retry_after_ms?: number }
  readonly delay_ms?: number
}

/** What is wrong with a reply, by its place. */
export function replyProblems(reply: unknown, at: string): readonly Problem[] {
  if (typeof reply === 'string') return []
  if (isObject(reply)) return problemsIn(reply, PARTS, at)
  return [{ path: at, rule: 'type', message: 'must be text or an object, as scriptedProvider takes them' }]
}

const said: Field = { says: 'text', fits: (value) => typeof value === 'string' }
const calls: Field = {
  says: 'a list of calls, each with a tool and its args',
  fits: (value) => Array.isArray(value) && value.every((call) => text.fits(Object(call).tool) && isObject(call.args)),
}
const PARTS: { readonly [P in keyof Required<ReplyParts>]: Fields[string] } = {
  text: said,
  object: anything,
  reasoning: said,
  tool_calls: calls,
  usage: { prompt: needed(amount), completion: needed(amount) },
  error: { message: needed(said), retryable: flag, retry_after_ms: amount },
  delay_ms: amount,
}
