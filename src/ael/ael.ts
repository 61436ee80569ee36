import { setMaxListeners } from 'node:events'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, InvalidInput, MplpError, NotFound, Refused } from '../protocol/errors.ts'
import { method, needed, object, refuseUnlessFit } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { keepWatched } from '../protocol/on-abort.ts'
import { shown } from '../protocol/shown.ts'
import { checkAction } from './action.ts'
import type { Action, ActionResult, Adapter, Asker, Call, ChildFlow, DeltaSource, RetryPolicy } from './adapter.ts'
import { checkLayerOptions } from './check-options.ts'
import { checkRegistering } from './check-registering.ts'
import { spentOf, stateOf } from './checkpoint.ts'
import { decorated, onward, type Passage } from './decorate.ts'
import { listening, sourceOf } from './deltas.ts'
import { endedEvent, labelOf, startedEvent } from './events.ts'
import { denied, toActionError } from './failure.ts'
import { inverseBy } from './inverse.ts'
import { lackOf } from './lack.ts'
import type { ActionLayer, CallOptions, EventDraft, Hands, Observer } from './layer.ts'
import { closeAll, closeOne, type Member } from './member.ts'
import { withOutputs } from './outputs.ts'
import { type AtOnce, placesFor } from './places.ts'
import { isReadOnly } from './read-only.ts'
import { gathered, redactor } from './redact.ts'
import { secretsOf } from './secrets.ts'
import { refuseUnlessSpend } from './spend.ts'
import { unknownParams } from './unknown-params.ts'
import { checkParams, toldAtOnce, withAdmission } from './with-admission.ts'
import { type CacheOptions, outcomeCache, withCache } from './with-cache.ts'
import { resultOf, withObserve } from './with-observe.ts'
import { withPlace } from './with-place.ts'
import { withRetry } from './with-retry.ts'
import { withTimeout } from './with-timeout.ts'

// What `mplp-runtime/ael` offers beside the layer: its words, its decorators, and what an adapter of your own needs.
export type * from './adapter.ts'
export {
  aborted,
  approvalDigest,
  newAction,
  nextRetry,
  storable,
  withAdmission,
  withCache,
  withObserve,
  withOutputs,
  withRetry,
  withTimeout,
} from './doors.ts'
export { denied, finalFailure, passingFailure } from './failure.ts'
export { fromLayer } from './from-layer.ts'
export type * from './layer.ts'
export { type MemoryBudgetOptions, memoryBudget } from './memory-budget.ts'
export type { OutputOptions } from './outputs.ts'
export type { AtOnce } from './places.ts'
export { REDACTED, type Redactor, redactor } from './redact.ts'
export type { AdmissionOptions } from './with-admission.ts'
export { type CacheOptions, type OutcomeCache, outcomeCache } from './with-cache.ts'
export type { ObserveOptions } from './with-observe.ts'
export type { RetryOptions } from './with-retry.ts'
export type { TimeoutOptions } from './with-timeout.ts'

export interface ActionLayerOptions extends Hands {
  readonly adapters?: readonly Adapter[]
  /** Never seen in an event, a trace, an error or a log; those that adapters know of need not be repeated. */
  readonly secrets?: readonly string[]
  /** Unless the call brings its own: events to `emit` when absent. */
  readonly observer?: Observer
  /** Hears what actions stream, unless the call brings its own: live and lossy, never stored. */
  readonly onDelta?: (delta: string, from: DeltaSource) => void
  /** For actions that name no policy. */
  readonly retry?: RetryPolicy
  /** Nothing is cached when absent. */
  readonly cache?: CacheOptions
  /** For actions and adapters that name no time: 30 s when absent. */
  readonly timeoutMs?: number
  /** How long work may take to end once it was told to: 1 s when absent. */
  readonly graceMs?: number
  /** Outputs above this go to the blobs: 64 KiB when absent. */
  readonly inlineBytes?: number
  /** Outputs above this are refused: 16 MiB when absent. */
  readonly maxOutputBytes?: number
  /** How many attempts are made at once, by the type of their action, and as `*` all together: as many as come when absent. Others wait, in order. */
  readonly atOnce?: AtOnce
  /** How many actions may lead to one another: 8 when absent. */
  readonly maxDepth?: number
  readonly clock?: Clock
}

/** The layer through which everything touches the world: around each adapter the same admission, cache, retry, observation and charge. */
export function actionLayer(options: ActionLayerOptions = {}): ActionLayer {
  checkLayerOptions(options)
  const { clock = systemClock, maxDepth = 8, secrets = [] } = options
  const members = new Map<string, Member>()
  const redact = redactor(gathered(() => secretsAmong(secrets, members)))
  const cache = options.cache && outcomeCache({ clock, ...options.cache })
  const observer = options.observer ?? (options.emit && observerFrom(options.emit))
  const shared = { ...options, redactor: redact, clock, ...(observer && { observer }) }
  const outputs = { ...shared, ...given({ maxBytes: options.maxOutputBytes }) }
  const places = options.atOnce && placesFor(options.atOnce)
  const shutdown = new AbortController()
  setMaxListeners(0, shutdown.signal) // each wait between two attempts is one
  keepWatched(shutdown.signal)
  const heard = options.onDelta === undefined ? nowhere : listening(options.onDelta)
  let closing: Promise<void> | undefined

  const memberFor = (action_type: string): Member | undefined => members.get(action_type) ?? members.get('*')
  const memberOf = (action_type: string): Member => {
    if (closing !== undefined) throw new Closed('the action layer')
    return memberFor(action_type) ?? missing(action_type)
  }
  const missing = (action_type: string): never => {
    throw new NotFound(NO_ADAPTER, action_type, those([...members.keys()]))
  }
  const adapterOf = (action: Asked): Adapter => memberOf(askable(action).action_type).adapter

  const observed = (adapter: Adapter, way: Way): Adapter => {
    const acting = decorated(adapter, (action, call) => adapter.execute(action, withAct(action, call, way)))
    const attempt = withObserve(withOutputs(withTimeout(acting, shared), outputs), shared)
    return places === undefined ? attempt : withPlace(attempt, places)
  }
  const admitted = (attempts: Adapter): Adapter =>
    withAdmission(cache === undefined ? attempts : withCache(attempts, cache), shared)
  const retried = (attempt: Adapter): Adapter =>
    withRetry(attempt, { clock, ...(options.retry && { policy: options.retry }) })

  /** What an action carries out goes the way that it went itself; what it streams is known to be its own. */
  const withAct = ({ action_id, action_type }: Action, call: Passage, way: Way): Passage => {
    const child = (flow: ChildFlow) => {
      const wait = call.untimed(call.child === ofItsOwn ? childOf(action_id, flow, call) : call.child(flow))
      wait.catch(() => undefined) // heard here, since an action need not wait for it: a close would end the process otherwise
      return wait
    }
    return onward(call, call, {
      child,
      checkpoint: (state, spent) => call.checkpoint(stateOf(state, action_type), spentOf(spent, action_type)),
      onDelta: (delta, from = sourceOf(action_id, call)) => call.onDelta(delta, from),
      act: (action, { resume } = {}) =>
        call.leads!(() => {
          const { resume: _, ...inherited } = call
          return run(action, way, {
            ...inherited,
            ...(resume === undefined ? {} : { resume }),
            checkpoint: nowhere,
            child, // what is carried out on the way is known to nobody after a crash
            attempt: 1,
            execution_id: clock.uuid(),
            parent_execution_id: call.execution_id,
            depth: call.depth + 1,
          })
        }),
    })
  }

  const childOf = (action_id: string, flow: ChildFlow, { execution_id, role, run: runRef, signal }: Passage) =>
    options.child === undefined
      ? Promise.reject(new Refused('no runtime is behind this action layer, so an action has no children', GIVE_HANDS))
      : options.child(flow, { action_id, execution_id, signal, ...given({ role, run: runRef }) })

  const run = async (action: Action, way: Way, call: Passage): Promise<ActionResult> => {
    checkAction(action)
    const member = memberOf(action.action_type)
    if (call.depth > maxDepth) throw denied(`${action.action_type} is too deep: ${maxDepth} actions led to it`)
    const began = clock.now()
    member.running++
    try {
      const outcome = await member[way].execute(action, call)
      return resultOf(action, outcome, Math.max(0, clock.now() - began))
    } catch (error) {
      throw redact.error(error instanceof MplpError ? error : toActionError(error))
    } finally {
      if (--member.running === 0) member.idle?.()
    }
  }

  /** From outside. A layer around this one hands its whole call on. */
  const begin = (action: Action, way: Way, call: CallOptions & Omit<Partial<Call>, 'onDelta'> = {}) => {
    if (!object.fits(call)) return Promise.reject(badCall(call))
    const { role, run: runRef, resume, observer: own, parent_execution_id } = call
    const { maxOutputBytes } = options
    const passage: { -readonly [F in keyof Passage]: Passage[F] } = {
      signal: call.signal ?? shutdown.signal,
      shutdown: shutdown.signal,
      execution_id: call.execution_id ?? clock.uuid(),
      attempt: call.attempt ?? 1,
      depth: call.depth ?? 0,
      checkpoint: call.checkpoint ?? nowhere,
      untimed: call.untimed ?? asItIs,
      act: notYet,
      child: call.child ?? ofItsOwn,
      onDelta: call.onDelta === undefined ? heard : listening(call.onDelta),
    }
    // One by one: each spread of what may be absent takes the engine as long as all of the rest.
    if (maxOutputBytes !== undefined) passage.maxOutputBytes = maxOutputBytes
    if (role !== undefined) passage.role = role
    if (runRef !== undefined) passage.run = runRef
    if (resume !== undefined) passage.resume = resume
    if (own !== undefined) passage.observer = own
    if (parent_execution_id !== undefined) passage.parent_execution_id = parent_execution_id
    return run(action, way, passage)
  }

  const layer: ActionLayer = {
    asksBudget: options.budget !== undefined,
    execute: (action, call) => begin(action, 'whole', call),
    attempt: (action, call) => begin(action, 'once', call),
    async check(action, asker: Asker = {}) {
      checkAction(action)
      if (!object.fits(asker)) throw badCall(asker)
      await checkParams(memberOf(action.action_type).adapter, action, asker, redact, shared)
    },
    executorOf: (action_type) => memberFor(action_type)?.adapter.executor_kind,
    lacks(action) {
      const { action_type, params } = askable(action)
      const member = memberFor(action_type)
      return member
        ? lackOf(member.adapter, params)
        : { what: NO_ADAPTER, name: action_type, known: [...members.keys()] }
    },
    unread(action) {
      const { action_type, params } = askable(action)
      const { paramNames } = memberFor(action_type)?.adapter ?? {}
      return paramNames ? unknownParams(params, paramNames) : []
    },
    unfit(action, asker = {}) {
      const { action_type, params } = askable(action)
      const adapter = memberFor(action_type)?.adapter
      const told = adapter ? toldAtOnce(adapter, params, asker, redact) : []
      return [...layer.unread(action).filter(({ path }) => !told.some((one) => one.path === path)), ...told]
    },
    label: (action) => redact.text(labelOf(adapterOf(action), action.params, action.action_type)),
    readOnly: (action) => isReadOnly(adapterOf(action), action.params),
    estimate(action) {
      const most = adapterOf(action).estimate?.(action.params) ?? {}
      refuseUnlessSpend(most, action.action_type)
      return most
    },
    found: async (action) => adapterOf(action).found?.(action.params),
    inverse(action, outcome) {
      if (!object.fits(outcome)) throw badOutcome(outcome)
      const adapter = adapterOf(action)
      try {
        return inverseBy(adapter, action, outcome)
      } catch (error) {
        throw redact.error(error instanceof MplpError ? error : toActionError(error))
      }
    },
    ...(places && { places }),
    register(adapter) {
      if (closing !== undefined) throw new Closed('the action layer')
      checkRegistering(adapter, members)
      const whole = admitted(retried(observed(adapter, 'whole')))
      const once = admitted(observed(adapter, 'once'))
      members.set(adapter.action_type, { adapter, whole, once, running: 0 })
    },
    async unregister(action_type) {
      const member = members.get(action_type) ?? missing(action_type)
      members.delete(action_type)
      await closeOne(member, clock)
    },
    close() {
      if (closing !== undefined) return closing
      closing = closeAll([...members.values()], clock)
      shutdown.abort()
      return closing
    },
  }
  for (const adapter of options.adapters ?? []) layer.register(adapter)
  return layer
}

/** Tells each attempt as runtime_execution events. */
export function observerFrom(emit: (event: EventDraft) => void | Promise<void>): Observer {
  refuseUnlessFit('observer', { emit }, { emit: needed(method) })
  return {
    started: (attempt) => emit(startedEvent(attempt)),
    ended: (attempt, end) => emit(endedEvent(attempt, end)),
  }
}

type Way = 'whole' | 'once'
const NO_ADAPTER = 'adapter for actions of type'
const those = (types: readonly string[]): string | undefined =>
  types.length === 0 ? undefined : `those that there are do ${[...types].sort().join(', ')}`

const nowhere = () => undefined
const asItIs = <T>(wait: Promise<T>) => wait
const notYet = () => Promise.reject(new Closed('an action that has not begun'))
/** Stands for the children of the action itself, where no layer around this one has handed on its own. */
const ofItsOwn: Call['child'] = () => notYet()
const GIVE_HANDS = 'give it to the runtime as a function, (hands) => actionLayer({ ...hands, … })'

/** Those that are configured, and those that adapters know of. */
function secretsAmong(configured: readonly string[], members: ReadonlyMap<string, Member>) {
  const lists = [configured]
  for (const { adapter } of members.values()) if (adapter.secrets) lists.push(secretsOf(adapter))
  return lists
}

type Asked = Pick<Action, 'action_type' | 'params'>

/** An action that a question is about. Every step asks, so it is looked at no closer than an adapter needs. */
function askable(action: Asked): Asked {
  const { params } = Object(action) as Asked
  if (!object.fits(params)) throw badParams(params)
  return action
}

const noObject = (what: string) => (found: unknown) =>
  new InvalidInput(what, [{ path: '', rule: 'type', message: 'must be an object', found: shown(found) }])
const badCall = noObject('call')
const badParams = noObject('params')
const badOutcome = noObject('outcome')
