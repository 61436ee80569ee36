import type { Config } from '../config.ts'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { messageOf } from '../protocol/thrown.ts'
import type { Backend, Traits } from '../vsl/backend.ts'
import type { Check } from './doctor.ts'
import { isMissingStore, MAKES_IT, storeIn } from './missing-store.ts'

/** What the failure to open a store comes to: there is nothing wrong yet where there is none yet. */
export function checkThere(config: Config, error: unknown): Check {
  if (!isMissingStore(error)) throw error
  return { check: 'store', verdict: 'warning', says: `there is no store ${storeIn(config)} yet`, remedy: MAKES_IT }
}

export function checkDurability({ durable, processes }: Traits, url: string): Check {
  const says = `reachable, for ${processes === 'one' ? 'one process at a time' : 'many processes'}`
  return durable
    ? { check: 'store', verdict: 'ok', says: `${says}, and keeps what it has acknowledged` }
    : {
        check: 'store',
        verdict: 'warning',
        says: `${says}, but may lose what it has acknowledged`,
        remedy: keepingIt(url),
      }
}

function keepingIt(url: string): string {
  if (url.startsWith('redis')) return 'set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no'
  return url.startsWith('postgres') ? 'set fsync and synchronous_commit to on' : 'choose sqlite or postgres'
}

/**
 * What answers may take nothing all the same: it is out of memory, or has been made read-only. Nothing is left behind. A store for one process was
 * written to when it was opened.
 */
export async function checkWriting(store: Backend, clock: Clock = systemClock): Promise<readonly Check[]> {
  if (store.traits.processes === 'one') return []
  const key = `doctor/${clock.uuid()}`
  try {
    await store.set(key, null)
    await store.delete(key)
    return [{ check: 'writing', verdict: 'ok', says: 'the store takes what is written' }]
  } catch (error) {
    const remedy = 'see to that; what runs waits until then, and goes on by itself'
    return [{ check: 'writing', verdict: 'failed', says: messageOf(error), remedy }]
  }
}

/** A store of an older layout was brought up to date by being opened, and one of a newer layout was refused. */
export async function checkLayout(store: Backend): Promise<Check> {
  const facts = await store.facts?.()
  const says = facts === undefined ? 'this store has one layout only' : `layout ${facts.layout}, nothing to migrate`
  return { check: 'migrations', verdict: 'ok', says }
}

const MOST_SKEW_MS = 1_000

/** Timers come due by our clock and leases by the store's: far apart, what is due in one place is not in the other. */
export async function checkClock(store: Pick<Backend, 'facts'>, clock: Clock = systemClock): Promise<Check> {
  const before = clock.now()
  const theirs = (await store.facts?.())?.now
  const after = clock.now()
  if (theirs === undefined)
    return { check: 'clock', verdict: 'ok', says: 'the store runs by the clock of this machine' }
  // The store looked at its clock at some moment between: only what lies outside is certain.
  const skew = theirs < before ? theirs - before : Math.max(0, theirs - after)
  const says = `the store's clock is ${Math.abs(Math.round(skew))} ms ${skew < 0 ? 'behind' : 'ahead of'} ours`
  return Math.abs(skew) <= MOST_SKEW_MS
    ? { check: 'clock', verdict: 'ok', says }
    : { check: 'clock', verdict: 'warning', says, remedy: 'have both machines set their clocks from the network (NTP)' }
}
