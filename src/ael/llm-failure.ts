import type { APICallError } from 'ai'
import { ActionError } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { beginningOf } from './excerpt.ts'
import { aborted, finalFailure, passingFailure } from './failure.ts'
import { retryAfterMs } from './retry-after.ts'

/** What a provider or its library threw, by what to do next. */
export function llmFailure(error: unknown, model: string, signal: AbortSignal, now: number): ActionError {
  if (signal.aborted) return aborted(model, signal)
  const own = ownFailure(error)
  if (own !== undefined) return own
  if (isApiError(error)) return apiFailure(error, model, now)
  if (isObject(error) && !(error instanceof Error)) return streamFailure(error, model)
  const text = `${model}: ${error instanceof Error ? error.message : String(error)}`
  return isPassing(error) ? passingFailure(text, { cause: error }) : finalFailure(text, { cause: error })
}

/** One of our own that travelled through the library as a cause: an answer above the limit, a schema that was not met. */
function ownFailure(error: unknown, depth = 0): ActionError | undefined {
  if (error instanceof ActionError) return error
  return error instanceof Error && depth < 5 ? ownFailure(error.cause, depth + 1) : undefined
}

const isApiError = (error: unknown): error is APICallError => isObject(error) && error.name === 'AI_APICallError'

const LATER = [408, 409, 425, 429]

/** Without a status the connection failed; with a good one, the answer could not be read: both may be better the next time. */
const mayPass = (status: number | undefined): boolean =>
  status === undefined || status < 300 || status >= 500 || LATER.includes(status)

/** What a provider said in the midst of its answer, as it said it. */
function streamFailure({ message, type, code }: Record<string, unknown>, model: string): ActionError {
  const text = `${model} broke off: ${String(message ?? type ?? 'no reason was given')}`
  return mayPass(typeof code === 'number' ? code : undefined) ? passingFailure(text) : finalFailure(text)
}

function apiFailure(error: APICallError, model: string, now: number): ActionError {
  const { statusCode, responseHeaders = {}, message } = error
  const said = message || beginningOf(error.responseBody ?? '') || 'no reason was given'
  const text = `${model}${statusCode === undefined ? '' : ` answered ${statusCode}`}: ${said}`
  if (!mayPass(statusCode)) return finalFailure(text, { cause: error })
  const ms = Number(responseHeaders['retry-after-ms'])
  const after = ms > 0 ? ms : retryAfterMs(responseHeaders['retry-after'], now)
  return passingFailure(text, { cause: error, ...(after === undefined ? {} : { retryAfterMs: after }) })
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
