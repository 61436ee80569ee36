import { type BusSpec, isWithin, nameOf } from '../bus/bus-spec.ts'
import { storedPosition, waitingMs } from '../orchestrator/relay-position.ts'
import { type Clock, systemClock } from '../protocol/clock.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Check } from './doctor.ts'

const MOST_BEHIND_MS = 60_000

/** What each bus outside of the processes has not been told of yet. Only the store is asked: whatever keeps a bus from it, it is seen there. */
export async function checkBuses(
  store: Backend,
  specs: readonly BusSpec[] = [],
  clock: Clock = systemClock,
): Promise<readonly Check[]> {
  const checks: Check[] = []
  for (const name of specs.filter((spec) => !isWithin(spec)).map(nameOf)) {
    const behind = await waitingMs(store, await storedPosition(store, name), clock)
    const says = `${name} is ${Math.round(behind / 1000)} s behind what was committed`
    const remedy = 'see what the process says that relays to it, or start one: it may be away, or not take an event'
    checks.push(
      behind <= MOST_BEHIND_MS
        ? { check: 'bus', verdict: 'ok', says }
        : { check: 'bus', verdict: 'warning', says, remedy },
    )
  }
  return checks
}
