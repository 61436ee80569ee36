import type { Clock } from '../protocol/clock.ts'
import type { Report } from '../protocol/reporter.ts'
import { backoffMs, slept } from '../protocol/waiting.ts'
import type { Delivery, Handler } from './transport.ts'

/**
 * Calls a handler so that it can hurt nobody: what it throws is reported, and it is called again until `attempts` is reached. Answers whether
 * the delivery counts as handled, which it does not when the signal ends the waiting between two attempts.
 */
export function handling(
  handler: Handler,
  options: { attempts: number; report: Report; clock: Clock; signal: AbortSignal },
): (delivery: Delivery) => boolean | Promise<boolean> {
  const { attempts, report, clock, signal } = options

  const again = async (delivery: Delivery, thrown: unknown): Promise<boolean> => {
    report(thrown)
    for (let attempt = 1; attempt < attempts; attempt++) {
      if (!(await slept(clock, backoffMs(attempt, clock), signal))) return false
      try {
        await handler(delivery)
        return true
      } catch (error) {
        report(error)
      }
    }
    return true
  }

  return (delivery) => {
    try {
      const work = handler(delivery)
      if (typeof work?.then !== 'function') return true
      return Promise.resolve(work).then(
        () => true,
        (error) => again(delivery, error),
      )
    } catch (error) {
      return again(delivery, error)
    }
  }
}
