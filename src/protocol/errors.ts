import type { Approvers } from './approvers.ts'
import { countOf, firstOf } from './first-of.ts'
import type { Digest, Json } from './json.ts'

/** Every code that we throw. */
export type ErrorCode =
  | ActionErrorCode
  | 'invalid_input'
  | 'rule_violation'
  | 'not_found'
  | 'revision_conflict'
  | 'fenced_out'
  | 'key_exists'
  | 'outcome_unknown'
  | 'unavailable'
  | 'refused'
  | 'corrupt'
  | 'too_large'
  | 'fell_behind'
  | 'closed'
  | 'stale_file'
  | 'unauthenticated'
  | 'forbidden'

/** Everything we throw on purpose. `code` is for programs, `message` for people. */
export abstract class MplpError extends Error {
  abstract readonly code: ErrorCode
  /** Would the same call, made again later, have a chance? */
  readonly retryable: boolean = false
  override get name(): string {
    return this.constructor.name
  }
}

/** One thing that is wrong with an input: where, which rule, and what was found there (shortened). */
export interface Problem {
  readonly path: string
  readonly rule: string
  readonly message: string
  readonly found?: string
}

/** The input does not fit. Fix what `problems` names; nothing was done. Of very many the last one, `more`, says how many there are beside them. */
export class InvalidInput extends MplpError {
  readonly code = 'invalid_input'
  readonly subject: string
  readonly problems: readonly Problem[]
  constructor(subject: string, problems: readonly Problem[], options?: ErrorOptions) {
    const told = firstOf(problems)
    const lines = told.map((p) => `${p.path || 'it'} ${p.message}`)
    super(`${subject} is not valid: ${listed(lines, countOf(told))}`, options)
    this.subject = subject
    this.problems = told
  }
}

/** One rule of the graph that a commit would break. */
export interface Violation {
  readonly rule: string
  readonly node: string
  readonly path: string
  readonly message: string
}

/** The commit would break the graph. Nothing changed anywhere. */
export class RuleViolation extends MplpError {
  readonly code = 'rule_violation'
  readonly graph: string
  readonly violations: readonly Violation[]
  constructor(graph: string, violations: readonly Violation[]) {
    super(`refused: ${listed(violations.map((v) => `${v.message} [${v.rule}]`))}`)
    this.graph = graph
    this.violations = violations
  }
}

/** No such thing under that id; the message ends with `remedy` where there is one. */
export class NotFound extends MplpError {
  readonly code = 'not_found'
  readonly what: string
  readonly id: string
  constructor(what: string, id: string, remedy?: string) {
    super(`there is no ${what} ${id}${remedy === undefined ? '' : `; ${remedy}`}`)
    this.what = what
    this.id = id
  }
}

/** Somebody wrote first. Re-read, decide again, try again. */
export class RevisionConflict extends MplpError {
  readonly code = 'revision_conflict'
  override readonly retryable = true
  readonly stream: string
  readonly expected: number
  readonly actual: number
  constructor(stream: string, expected: number, actual: number) {
    super(`${stream} is at revision ${actual}, not ${expected}`)
    this.stream = stream
    this.expected = expected
    this.actual = actual
  }
}

/** Another owner has taken the stream over. Stop; what you hold is stale. */
export class FencedOut extends MplpError {
  readonly code = 'fenced_out'
  readonly stream: string
  readonly fence: number
  readonly token: number
  constructor(stream: string, fence: number, token: number) {
    super(`${stream} has a newer owner: token ${token}, not ${fence}`)
    this.stream = stream
    this.fence = fence
    this.token = token
  }
}

/** An insert met a key that is already there. */
export class KeyExists extends MplpError {
  readonly code = 'key_exists'
  readonly key: string
  constructor(key: string) {
    super(`key ${key} exists already`)
    this.key = key
  }
}

/** The reply was lost: the write may have landed or not. Submit the same write again to find out; the message ends with why, where that is known. */
export class OutcomeUnknown extends MplpError {
  readonly code = 'outcome_unknown'
  override readonly retryable = true
  constructor(stream: string, options?: ErrorOptions) {
    super(`no reply to a write on ${stream}: it may have landed${whyUnknown(options?.cause)}`, options)
  }
}

function whyUnknown(cause: unknown): string {
  if (cause instanceof OutcomeUnknown) return whyUnknown(cause.cause)
  return cause instanceof MplpError ? `; ${cause.message}` : ''
}

/** The server cannot be reached, or said "not now". Nothing was written. */
export class Unavailable extends MplpError {
  readonly code = 'unavailable'
  override readonly retryable = true
  constructor(what: string, remedy: string, options?: ErrorOptions) {
    super(`${what} cannot be reached: ${remedy}`, options)
  }
}

/** The store, bus or folder is there but must not be used as it is; `remedy` says what to change. */
export class Refused extends MplpError {
  readonly code = 'refused'
  readonly remedy: string
  constructor(what: string, remedy: string, options?: ErrorOptions) {
    super(`${what}; ${remedy}`, options)
    this.remedy = remedy
  }
}

/** What was read back is not what was written. */
export class Corrupt extends MplpError {
  readonly code = 'corrupt'
  readonly remedy: string
  constructor(what: string, remedy: string, options?: ErrorOptions) {
    super(`${what} is damaged; ${remedy}`, options)
    this.remedy = remedy
  }
}

/** Larger than it may be. */
export class TooLarge extends MplpError {
  readonly code = 'too_large'
  readonly bytes: number
  readonly limit: number
  constructor(what: string, bytes: number, limit: number, remedy: string) {
    super(`${what} has ${bytes} bytes, more than ${limit}; ${remedy}`)
    this.bytes = bytes
    this.limit = limit
  }
}

/** A subscriber did not keep up, and deliveries passed it by. Subscribe again after the last one handled, where they are still kept. */
export class FellBehind extends MplpError {
  readonly code = 'fell_behind'
  override readonly retryable = true
  constructor(what: string, why: string) {
    super(`${what} fell behind: ${why}`)
  }
}

/** It was closed before this call. */
export class Closed extends MplpError {
  readonly code = 'closed'
  constructor(what: string) {
    super(`${what} is closed`)
  }
}

export type ActionErrorCode =
  | 'action_failed'
  | 'action_denied'
  | 'budget_exceeded'
  | 'action_rejected'
  | 'action_timed_out'
  | 'action_aborted'
  | 'approval_needed'

export interface ActionErrorOptions extends ErrorOptions {
  readonly retryable?: boolean
  /** The other side asked to be left alone for this long. */
  readonly retryAfterMs?: number
  /** What the attempt had used up before it failed. */
  readonly spent?: { readonly tokens?: number; readonly cost?: number }
  /** The last checkpoint of the attempt. */
  readonly resume?: Json
}

/**
 * An action did not happen, or not wholly. By `code`: it failed (`retryable` says whether another attempt has a chance), policy or budget denied
 * it, a person rejected it, its time ran out, it was aborted, or it waits for an approval.
 */
export class ActionError extends MplpError {
  readonly code: ActionErrorCode
  override readonly retryable: boolean
  readonly retryAfterMs?: number
  readonly spent?: { readonly tokens?: number; readonly cost?: number }
  readonly resume?: Json
  constructor(code: ActionErrorCode, message: string, options: ActionErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.retryable = options.retryable ?? code === 'action_timed_out'
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs
    if (options.spent !== undefined) this.spent = options.spent
    if (options.resume !== undefined) this.resume = options.resume
  }
}

/** The question that must be answered before an action can be done. */
export interface ApprovalQuestion {
  /** Of tool, arguments and run: only a decision about this very digest counts. */
  readonly digest: Digest
  readonly action_id: string
  readonly tool: string
  /** Redacted. */
  readonly arguments: Json
  readonly description: string
  /** Anybody when absent. */
  readonly approvers?: Approvers
}

/** A pause, not a failure: somebody must agree first. Ask, and make the same call again with the decision in place. */
export class ApprovalNeeded extends ActionError {
  readonly question: ApprovalQuestion
  constructor(question: ApprovalQuestion, options: ActionErrorOptions = {}) {
    super('approval_needed', `${question.tool} waits for approval: ${question.description}`, options)
    this.question = question
  }
}

/** The file is not as it was when somebody last looked. Read it again, then decide again. */
export class StaleFile extends MplpError {
  readonly code = 'stale_file'
  readonly path: string
  constructor(path: string) {
    super(`${path} has changed since it was read`)
    this.path = path
  }
}

const LISTED = 5
const listed = (lines: readonly string[], count = lines.length): string =>
  lines.length <= LISTED ? lines.join('; ') : `${lines.slice(0, LISTED).join('; ')}; and ${count - LISTED} more`
