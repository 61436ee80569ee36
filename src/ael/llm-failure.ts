import { ActionError } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { messageOf } from '../protocol/thrown.ts'
import { beginningOf } from './excerpt.ts'
import { aborted, finalFailure, passingFailure } from './failure.ts'
import { retryAfterMs } from './retry-after.ts'

/** What a provider or its library threw, by what to do next. */
export function llmFailure(error: unknown, model: string, signal: AbortSignal, now: number): ActionError {
  if (signal.aborted) return aborted(model, signal)
  const own = ownFailure(error)
  if (own !== undefined) return own
  const answer = answerIn(error)
  if (answer !== undefined) return answerFailure(answer, model, now)
  if (isObject(error) && !(error instanceof Error)) return streamFailure(error, model)
  if (error instanceof RangeError && error.message.includes('call stack'))
    return passingFailure(`what ${model} answered is nested too deeply to be read`, { cause: error })
  const text = `${model}: ${messageOf(error)}`
  return isPassing(error) ? passingFailure(text, { cause: error }) : finalFailure(text, { cause: error })
}

/** One of our own that travelled through the library as a cause: an answer above the limit, a schema that was not met. */
function ownFailure(error: unknown, depth = 0): ActionError | undefined {
  if (error instanceof ActionError) return error
  return error instanceof Error && depth < 5 ? ownFailure(error.cause, depth + 1) : undefined
}

interface Answer {
  readonly status: number | undefined
  readonly header: (name: string) => string | undefined
  readonly said: string
  readonly cause: unknown
}

/** What a server answered, as the error of the library tells it, or that of any client which names a status that refuses. */
function answerIn(error: unknown): Answer | undefined {
  if (!isObject(error)) return undefined
  const { statusCode, status = statusCode, responseHeaders, headers = responseHeaders, message, responseBody } = error
  const refused = typeof status === 'number' && status >= 400 && status < 600
  const body = beginningOf(String(responseBody ?? '')) // where it was taken for a good answer, only the library has looked into it
  if (error.name !== 'AI_APICallError' && !(error instanceof Error && refused)) return undefined
  return {
    status: typeof status === 'number' ? status : undefined,
    header: (name) => headersOf(headers).get(name) ?? undefined,
    said: [message, refused ? '' : body].filter(Boolean).join(': ') || body || 'no reason was given',
    cause: error,
  }
}

/** Headers as any client keeps them: as such, or as an object with names in whatever case. */
function headersOf(given: unknown): Pick<ReadonlyMap<string, string>, 'get'> {
  const headers = Object(given)
  const pairs: readonly unknown[] = Symbol.iterator in headers ? [...headers] : Object.entries(headers)
  return new Map(pairs.filter(Array.isArray).map(([name, value]) => [String(name).toLowerCase(), String(value)]))
}

const LATER = [408, 409, 425, 429]

/** Without a status the connection failed; with a good one, the answer could not be read: both may be better the next time. */
const mayPass = (status: number | undefined): boolean =>
  status === undefined || status < 300 || status >= 500 || LATER.includes(status)

/** What a provider said in the midst of its answer, as it said it. */
function streamFailure({ message, type, code }: Record<string, unknown>, model: string): ActionError {
  const text = `${model} broke off: ${String(message ?? type ?? 'no reason was given')}`
  return mayPass(typeof code === 'number' ? code : undefined) ? passingFailure(text) : finalFailure(text)
}

function answerFailure({ status, header, said, cause }: Answer, model: string, now: number): ActionError {
  const text = `${model}${status === undefined ? '' : ` answered ${status}`}: ${said}`
  if (!mayPass(status)) return finalFailure(text, { cause })
  const ms = Number(header('retry-after-ms'))
  const after = ms > 0 ? ms : retryAfterMs(header('retry-after'), now)
  return passingFailure(text, { cause, ...(after === undefined ? {} : { retryAfterMs: after }) })
}

/** Answers that were cut or garbled, and connections that broke while they were read. */
const PASSING_NAMES = new Set([
  'AI_JSONParseError',
  'AI_TypeValidationError',
  'AI_InvalidResponseDataError',
  'AI_EmptyResponseBodyError',
  'AI_NoContentGeneratedError',
  'AI_NoObjectGeneratedError',
  'AI_NoOutputGeneratedError',
  'AI_InvalidStreamPartError',
])

function isPassing(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (PASSING_NAMES.has(error.name)) return true
  const { code } = error as NodeJS.ErrnoException
  return error instanceof TypeError || (typeof code === 'string' && /^(?:E[A-Z]+|UND_ERR_\w+)$/.test(code)) // fetch throws TypeErrors
}
