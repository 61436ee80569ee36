import type { Action, Adapter, Call, Outcome } from './adapter.ts'
import type { Observer } from './layer.ts'

/** A Call on its way through the decorators; what is added here is none of an adapter's business. */
export interface Passage extends Call {
  readonly observer?: Observer
  /** Of the layer: beside the caller's signal, so that the way to an attempt needs no signal of its own. */
  readonly shutdown?: AbortSignal
  /** What an output may be at most: whoever collects one piece by piece need not go on beyond it. */
  readonly maxOutputBytes?: number
  /** Begins what this attempt leads to, unless it has ended: its end waits for that. Of `withTimeout`. */
  readonly leads?: <T>(begin: () => Promise<T>) => Promise<T>
}

/** Whose signal is handed on. */
const SOURCE = Symbol('source')

type Sourced = { readonly [SOURCE]: { readonly signal: AbortSignal } }

/** Shared by all, so that the engine knows them as one kind of object. */
const SIGNAL_OF_SOURCE = {
  enumerable: true,
  get(this: Sourced): AbortSignal {
    return this[SOURCE].signal
  },
}

/**
 * A call handed on with some of it changed, and with the signal of `source`. That is made when somebody asks for it: a signal takes as long to make as
 * the whole way through the decorators, and most work never looks at its own.
 */
export function onward(
  call: Passage,
  source: { readonly signal: AbortSignal },
  changed: Partial<Pick<Passage, 'onDelta' | 'checkpoint' | 'untimed' | 'act' | 'child' | 'leads'>> = {},
): Passage {
  const passage = {
    onDelta: changed.onDelta ?? call.onDelta,
    checkpoint: changed.checkpoint ?? call.checkpoint,
    untimed: changed.untimed ?? call.untimed,
    act: changed.act ?? call.act,
    child: changed.child ?? call.child,
    leads: changed.leads ?? call.leads,
    attempt: call.attempt,
    execution_id: call.execution_id,
    depth: call.depth,
    parent_execution_id: call.parent_execution_id,
    resume: call.resume,
    role: call.role,
    run: call.run,
    observer: call.observer,
    shutdown: call.shutdown,
    maxOutputBytes: call.maxOutputBytes,
    [SOURCE]: source, // last: a literal that begins with what is computed grows from nothing, member by member
  }
  return Object.defineProperty(passage, 'signal', SIGNAL_OF_SOURCE) as unknown as Passage
}

/** The same, for a function that is told which action it carries out. */
export function callFor({ action_id, idempotency_key }: Action, call: Passage): Passage & ActionNames {
  const passage = onward(call, call) as Passage & { -readonly [F in keyof ActionNames]: string }
  passage.action_id = action_id
  passage.idempotency_key = idempotency_key
  return passage
}
type ActionNames = Pick<Action, 'action_id' | 'idempotency_key'>

/**
 * The same adapter, done differently. Its methods stay bound to it, so that an instance of a class can be decorated too.
 */
export function decorated(adapter: Adapter, execute: (action: Action, call: Passage) => Promise<Outcome>): Adapter {
  return {
    action_type: adapter.action_type,
    executor_kind: adapter.executor_kind,
    ...(adapter.timeoutMs === undefined ? {} : { timeoutMs: adapter.timeoutMs }),
    ...(adapter.secrets && { secrets: adapter.secrets.bind(adapter) }),
    ...(adapter.label && { label: adapter.label.bind(adapter) }),
    ...(adapter.check && { check: adapter.check.bind(adapter) }),
    ...(adapter.lacks && { lacks: adapter.lacks.bind(adapter) }),
    ...(adapter.paramNames && { paramNames: adapter.paramNames }),
    ...(adapter.readOnly && { readOnly: adapter.readOnly.bind(adapter) }),
    ...(adapter.approval && { approval: adapter.approval.bind(adapter) }),
    ...(adapter.estimate && { estimate: adapter.estimate.bind(adapter) }),
    ...(adapter.found && { found: adapter.found.bind(adapter) }),
    ...(adapter.inverse && { inverse: adapter.inverse.bind(adapter) }),
    ...(adapter.close && { close: adapter.close.bind(adapter) }),
    execute,
  }
}
