import type { IncomingHttpHeaders } from 'node:http'
import type { ActionError } from '../protocol/errors.ts'
import { beginningOf } from './excerpt.ts'
import { finalFailure, passingFailure } from './failure.ts'
import { retryAfterMs } from './retry-after.ts'

/** Statuses that may be another one later. */
export const LATER: readonly number[] = [408, 425, 429, 500, 502, 503, 504]

export interface Refused {
  readonly host: string
  readonly status: number
  readonly headers: Pick<IncomingHttpHeaders, 'retry-after'>
  /** What it says, as far as it is known. */
  readonly words: string
  /** What to do about it, where waiting is no use. */
  readonly remedy?: string | undefined
}

/** What a status that nobody wanted means to whoever asked. */
export function refusal({ host, status, headers, words, remedy = '' }: Refused, now: number): ActionError {
  const said = beginningOf(words.trim())
  const text = `${host} answered ${status}${said === '' ? '' : `: ${said}`}`
  if (!LATER.includes(status)) return finalFailure(`${text}${remedy}`)
  const after = retryAfterMs(headers['retry-after'], now)
  return passingFailure(text, after === undefined ? {} : { retryAfterMs: after })
}
