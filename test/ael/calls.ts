import { newAction } from '../../src/ael/action.ts'
import type { Action, Adapter, Call, Outcome } from '../../src/ael/adapter.ts'
import { Closed } from '../../src/protocol/errors.ts'

/** An adapter that does what it is told, for a decorator to stand around. */
export const adapterOf = (
  execute: (action: Action, call: Call) => Promise<Outcome>,
  more: Partial<Adapter> = {},
): Adapter => ({ action_type: 'work', executor_kind: 'worker', execute, ...more })

export const work = (more: Partial<Action> = {}): Action => newAction({ action_type: 'work', params: {}, ...more })

/** What a decorator is given by the one outside of it. */
export const callOf = (more: Partial<Call> = {}): Call => ({
  signal: new AbortController().signal,
  onDelta: () => undefined,
  attempt: 1,
  execution_id: '00000000-0000-4000-8000-000000000001',
  depth: 0,
  checkpoint: () => undefined,
  untimed: (wait) => wait,
  act: () => Promise.reject(new Closed('nothing')),
  child: () => Promise.reject(new Closed('nothing')),
  ...more,
})

/** Lets everything that is ready go on. */
export const turn = () => new Promise((resolve) => setImmediate(resolve))
