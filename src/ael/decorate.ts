import type { Action, Adapter, Call, Outcome } from './adapter.ts'
import type { Observer } from './layer.ts'

/** A Call on its way through the decorators; what is added here is none of an adapter's business. */
export interface Passage extends Call {
  readonly observer?: Observer
  /** Of the layer: beside the caller's signal, so that the way to an attempt needs no signal of its own. */
  readonly shutdown?: AbortSignal
  /** What an output may be at most: whoever collects one piece by piece need not go on beyond it. */
  readonly maxOutputBytes?: number
}

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
    ...(adapter.readOnly && { readOnly: adapter.readOnly.bind(adapter) }),
    ...(adapter.approval && { approval: adapter.approval.bind(adapter) }),
    ...(adapter.estimate && { estimate: adapter.estimate.bind(adapter) }),
    ...(adapter.found && { found: adapter.found.bind(adapter) }),
    ...(adapter.inverse && { inverse: adapter.inverse.bind(adapter) }),
    ...(adapter.close && { close: adapter.close.bind(adapter) }),
    execute,
  }
}
