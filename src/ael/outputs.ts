import { InvalidInput, TooLarge } from '../protocol/errors.ts'
import { amount } from '../protocol/fields.ts'
import { canonical, digestOf, isObject, type Json } from '../protocol/json.ts'
import { jsonCopy } from '../protocol/json-copy.ts'
import { shown } from '../protocol/shown.ts'
import { under } from '../protocol/under.ts'
import type { ActionResult, Adapter, Outcome, OutputRef } from './adapter.ts'
import { decorated } from './decorate.ts'
import { finalFailure, finalFrom, toActionError, withSpent } from './failure.ts'
import type { Blobs } from './layer.ts'
import { type Redactor, redactor } from './redact.ts'
import type { CompiledSchema } from './schema.ts'
import { secretsOf } from './secrets.ts'

export interface OutputOptions {
  readonly blobs?: Pick<Blobs, 'put'>
  /** JSON text above this goes to the blobs, where there are any. */
  readonly inlineBytes?: number
  /** An attempt whose output is above this has failed. */
  readonly maxBytes?: number
  readonly redactor?: Redactor
}

const PREVIEW = 1_024
export const MAX_OUTPUT_BYTES = 16 * 1024 * 1024

export function withOutputs(adapter: Adapter, options: OutputOptions = {}): Adapter {
  const { blobs, inlineBytes = 65_536, maxBytes = MAX_OUTPUT_BYTES } = options
  const redact = options.redactor ?? redactor(() => secretsOf(adapter))

  /** The outcome as it is handed on, and the bytes of an output that is too large to be kept with it. */
  const finished = (outcome: Outcome, what: string): { readonly kept: Outcome; readonly large?: Buffer } => {
    const { output, ...rest } = outcome
    if (output === undefined) return { kept: rest }
    const text = textOf(output, what)
    // A character is at most three bytes of UTF-8 per UTF-16 unit: the exact count is only worth taking when it could matter.
    if (text.length * 3 > maxBytes) refuseAbove(maxBytes, Buffer.byteLength(text), what)
    const copy = copyOf(output, what)
    if (copy === undefined) return { kept: rest }
    const clean = redact.json(copy)
    const kept = { output: clean, ...rest }
    if (text.length * 3 <= inlineBytes) return { kept }
    const bytes = Buffer.from(canonical(clean)) // what agrees has one digest, in whatever order it names the same
    return bytes.length <= inlineBytes ? { kept } : { kept, large: bytes }
  }

  return decorated(adapter, async (action, call) => {
    const outcome = (await adapter.execute(action, call)) ?? {}
    refuseUnlessOutcome(outcome, action.action_type)
    const { cost, token_usage } = outcome
    if (spentBy(outcome)) refuseUnlessAmounts({ cost, ...token_usage }, action.action_type)
    try {
      const { kept, large } = finished(outcome, action.action_type)
      if (!large || !blobs) return kept
      return { ...kept, output_ref: await stored(large, blobs, action.action_type, call.signal) }
    } catch (error) {
      throw withSpent(toActionError(error), spentBy(outcome))
    }
  })
}

/** A value that is handed back bare would be lost without a word. */
function refuseUnlessOutcome(outcome: Outcome, what: string): void {
  if (!isObject(outcome))
    throw finalFailure(
      `${what} gave ${Array.isArray(outcome) ? 'a list' : `a ${typeof outcome}`} instead of { output }`,
    )
  const keys = Object.keys(outcome)
  if (keys.length > 0 && !keys.some((key) => OUTCOME.has(key)))
    throw finalFailure(`${what} gave an object with ${keys.slice(0, 5).join(', ')} instead of { output }`)
}
/** A result of another action is an outcome, too. */
const OUTCOME: ReadonlySet<string> = new Set(['output', 'output_ref', 'cached', 'token_usage', 'cost', 'action_id'])

/** One NaN in a sum, and no limit holds any more. */
export function refuseUnlessAmounts(spend: { readonly [unit: string]: unknown }, what: string): void {
  for (const [unit, said] of Object.entries(spend))
    if (said !== undefined && said !== null && !amount.fits(said))
      throw finalFailure(`the ${unit} of ${what} must be ${amount.says}, not ${shown(said)}`)
}

/** What an outcome says that it cost; `undefined` when it says nothing. */
export function spentBy({ token_usage, cost }: Outcome): { tokens?: number; cost?: number } | undefined {
  if (token_usage === undefined && cost === undefined) return undefined
  return { ...(token_usage && { tokens: token_usage.total }), ...(cost === undefined ? {} : { cost }) }
}

export function storable<R extends ActionResult | Outcome>(result: R): Omit<R, 'output'> & { readonly output?: Json } {
  if (result.output_ref === undefined) return result
  const { output: _, ...rest } = result
  return rest
}

/** Taken before the copy: of what is too large none is made. */
function textOf(output: unknown, what: string): string {
  try {
    return JSON.stringify(output) ?? ''
  } catch (cause) {
    if (!(cause instanceof RangeError)) copyOf(output, what) // names the place
    throw finalFailure(`${what} gave something that is too large or too deep to be JSON text; give less`, { cause })
  }
}

function copyOf(output: unknown, what: string): Json | undefined {
  try {
    return jsonCopy(output, `the output of ${what}`, 'output')
  } catch (cause) {
    throw finalFrom(cause as InvalidInput)
  }
}

export function refuseAbove(limit: number, bytes: number, what: string): void {
  if (bytes <= limit) return
  const remedy = 'ask for less, or raise actions.max_output_bytes in the config (maxOutputBytes of a layer)'
  throw finalFrom(new TooLarge(`the output of ${what}`, bytes, limit, remedy))
}

/** Throws for what the schema of an output does not let pass; of one that there is none for, nobody asks. */
export async function checkOutput(schema: CompiledSchema, output: unknown, what: string): Promise<void> {
  const problems = await schema.problems(output)
  if (problems.length > 0) throw finalFrom(new InvalidInput(`the output of ${what}`, under('output', problems)))
}

/** The work is done by now: that its output cannot be kept must not lead to its being done again. */
async function stored(bytes: Buffer, blobs: Pick<Blobs, 'put'>, what: string, signal: AbortSignal): Promise<OutputRef> {
  const digest = await blobs.put(bytes, signal).catch((cause) => {
    throw finalFailure(`${what} was done, but its output could not be stored`, { cause })
  })
  if (digest !== digestOf(bytes)) throw finalFailure(`the blob store answered with ${digest} for other bytes`)
  return { digest, bytes: bytes.length, preview: bytes.subarray(0, PREVIEW).toString().replace(/�+$/, '') }
}
