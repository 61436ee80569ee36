import {
  amount,
  anything,
  clock,
  duration,
  guarded,
  having,
  method,
  needed,
  object,
  positive,
  refuseUnlessFit,
  signal,
  text,
  timeout,
  wholeFrom,
  within,
} from '../protocol/fields.ts'
import * as actions from './action.ts'
import { RETRY } from './action.ts'
import * as check from './check-options.ts'
import * as failures from './failure.ts'
import * as outputs from './outputs.ts'
import * as admission from './with-admission.ts'
import * as cache from './with-cache.ts'
import * as observe from './with-observe.ts'
import * as retry from './with-retry.ts'
import * as timeouts from './with-timeout.ts'

// For callers whom nobody has checked. Inside, where the layer knows what it gives, these functions are called as they are.

const adapter = needed(check.adapter)
const { redactor } = check

/** An action with a fresh id, which is its idempotency key too unless another is given. */
export const newAction: typeof actions.newAction = (draft, ...clocks) => {
  refuseUnlessFit('action', draft, { action_type: needed(text), params: needed(object), '*': anything })
  refuseUnlessFit('action', { clock: clocks[0] }, { clock })
  return actions.newAction(draft, ...clocks)
}

/** What the work was ended by. */
export const aborted = guarded('failure', { what: needed(text), signal: needed(signal) }, failures.aborted)

/** What binds a decision to one tool, one set of arguments and one step of one run. */
export const approvalDigest = guarded(
  'approval',
  { tool: needed(text), arguments: needed(anything), run: object },
  admission.approvalDigest,
)

/** How long to wait before the next attempt, or `undefined`: no more. Pure; `random` is at least 0 and below 1. */
export const nextRetry = guarded(
  'retry',
  {
    policy: RETRY,
    made: needed(wholeFrom(1)),
    error: needed({ says: 'an error: retryable', fits: (value) => typeof Object(value).retryable === 'boolean' }),
    random: needed(within(0, 1)),
  },
  retry.nextRetry,
)

/** What of a result belongs into a store: without the output that lies in the blobs already. */
export const storable: typeof outputs.storable = (result) => {
  refuseUnlessFit('result', { result }, { result: needed(object) })
  return outputs.storable(result)
}

/**
 * Lets an action through only when its parameters fit, the asker may do it, and, where policy says `ask`, a person has agreed to exactly this
 * tool with exactly these arguments in exactly this run.
 */
export const withAdmission = guarded(
  'admission',
  { adapter, options: { admit: method, gate: method, redactor, timeoutMs: timeout, clock } },
  admission.withAdmission,
)

/** Answers an equal read-only action, asked for by the same role, from the cache; anything that changes something is done each time. */
export const withCache = guarded(
  'cache',
  { adapter, cache: needed(having('a cache, as outcomeCache makes them', 'get', 'set', 'accepts')) },
  cache.withCache,
)

/**
 * Tells the start and the end of every attempt, and charges it: reserved before, settled after, released when nothing was spent. At a checkpoint
 * that says what is spent by then, that is reserved where it is more; an attempt that has used up its budget so goes no further. What an attempt throws
 * becomes an ActionError without secrets that carries the last checkpoint.
 */
export const withObserve = guarded(
  'observation',
  { adapter, options: { budget: check.budget, emit: method, observer: check.observer, redactor, clock } },
  observe.withObserve,
)

/** Makes of whatever an adapter gives a copy that is JSON, free of secrets and not too large, and puts large ones into the store. */
export const withOutputs = guarded(
  'outputs',
  { adapter, options: { blobs: having('blobs: put', 'put'), inlineBytes: amount, maxBytes: positive, redactor } },
  outputs.withOutputs,
)

/** Attempts again what may pass, as the action's policy says; goes on from the last checkpoint where there is one. */
export const withRetry = guarded(
  'retry',
  { adapter, options: { policy: RETRY, longestWaitMs: amount, clock } },
  retry.withRetry,
)

/** Ends the work when its time is up or its caller gives up: by its signal, so that the work ends and not only the wait. */
export const withTimeout = guarded(
  'timeout',
  { adapter, options: { timeoutMs: timeout, graceMs: duration, clock } },
  timeouts.withTimeout,
)
