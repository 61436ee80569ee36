import type { FastifyError } from 'fastify'
import { InvalidInput, MplpError, type Problem, RuleViolation, type Violation } from '../protocol/errors.ts'
import { firstOf } from '../protocol/first-of.ts'

/** What went wrong, as RFC 9457 has it: `code` is ours, `problems` and `violations` name path and rule. */
export interface ProblemDocument {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail?: string
  readonly problems?: InvalidInput['problems']
  readonly violations?: readonly (Violation | Problem)[]
}

/** Refused at the door: no token, or one that does not allow it. */
export class Denied extends MplpError {
  readonly code: 'unauthenticated' | 'forbidden'
  constructor(code: Denied['code'], message: string) {
    super(message)
    this.code = code
  }
}

const LONGEST_DETAIL = 300

/** Our errors by their code; of anything else a stranger learns nothing. */
export function problemOf(error: unknown): ProblemDocument {
  if (!(error instanceof MplpError))
    return { type: 'about:blank', title: 'Something went wrong', status: 500, code: 'internal' }
  const [status, title] = STATUS[error.code] ?? [500, 'Something went wrong']
  return {
    type: 'about:blank',
    title,
    status,
    code: error.code,
    detail: error.message,
    ...(error instanceof InvalidInput && { problems: error.problems }),
    ...(error instanceof RuleViolation && { violations: firstOf(error.violations) }),
  }
}

/** The same for what came before anything was asked of the runtime: Fastify's by their status. One that a store throws may have such a thing too. */
export function problemOfRequest(error: unknown): ProblemDocument {
  const { statusCode = 500, message } = error as Partial<FastifyError>
  const told = error instanceof MplpError ? undefined : OF_FASTIFY[statusCode]
  if (!told) return problemOf(error)
  const [code, title] = told
  return { type: 'about:blank', title, status: statusCode, code, detail: String(message).slice(0, LONGEST_DETAIL) }
}

const STATUS: { readonly [code: string]: readonly [status: number, title: string] } = {
  unauthenticated: [401, 'A token is needed'],
  forbidden: [403, 'Not allowed'],
  invalid_input: [400, 'The input does not fit'],
  not_found: [404, 'Not there'],
  rule_violation: [409, 'A rule forbids it'],
  revision_conflict: [409, 'Somebody wrote first'],
  key_exists: [409, 'It is there already'],
  refused: [409, 'Not as things are'],
  too_large: [413, 'Too large'],
  unavailable: [503, 'The store cannot be reached'],
  outcome_unknown: [503, 'It may have happened: ask again'],
  fenced_out: [503, 'Another process has taken over: ask again'],
  closed: [503, 'The server is closing'],
}

const OF_FASTIFY: { readonly [status: number]: readonly [code: string, title: string] } = {
  400: ['invalid_input', 'The request cannot be understood'],
  404: ['not_found', 'Not there'],
  405: ['invalid_input', 'Not with this method'],
  408: ['invalid_input', 'The request took too long'],
  413: ['too_large', 'Too large'],
  414: ['too_large', 'The address is too long'],
  415: ['invalid_input', 'The body must be application/json'],
  431: ['too_large', 'The headers are too long'],
  503: ['closed', 'The server is closing'],
}
