import type { Clock } from '../protocol/clock.ts'
import { atMost, unlessAborted } from '../protocol/waiting.ts'

/** Calls that are under way: whoever closes what they were made of waits for them. */
export interface Calls {
  /** The same methods; each call of one counts until it has ended. */
  counted<M extends object>(methods: M): M
  /** Resolves when all have ended that are under way by now, whatever became of them; when that takes too long; or once somebody is in a hurry. */
  ended(hurry: AbortSignal): Promise<unknown>
}

type Method = (...given: never[]) => Promise<unknown>

/** How long a close waits for what is under way. */
export const DRAIN_MS = 10_000

export function callsUnderWay(clock: Clock, drainMs = DRAIN_MS): Calls {
  const underWay = new Set<Promise<unknown>>()
  const count =
    (method: Method) =>
    (...given: never[]) => {
      const call = method(...given)
      const over = () => underWay.delete(call)
      underWay.add(call)
      call.then(over, over)
      return call
    }
  return {
    counted: <M extends object>(methods: M) =>
      Object.fromEntries(Object.entries<Method>(methods as never).map(([name, method]) => [name, count(method)])) as M,
    ended: (hurry) => unlessAborted(atMost(drainMs, Promise.allSettled(underWay), clock), hurry),
  }
}
