import { type Clock, systemClock } from '../protocol/clock.ts'
import { canonical, digestOf } from '../protocol/json.ts'
import type { Action, Adapter, Outcome } from './adapter.ts'
import { checkCacheOptions } from './check-options.ts'
import { decorated } from './decorate.ts'
import { isReadOnly } from './read-only.ts'

export interface CacheOptions {
  readonly ttlMs: number
  readonly maxEntries?: number
  /** Of the outputs' JSON text. */
  readonly maxBytes?: number
  /** Only these action types; every read-only action when absent. */
  readonly types?: readonly string[]
  readonly clock?: Clock
}

export interface OutcomeCache {
  get(key: string): Outcome | undefined
  set(key: string, outcome: Outcome): void
  accepts(action: Action): boolean
}

/** Outcomes by key, for a while; when there is no room, the one that was not asked for longest goes. */
export function outcomeCache(options: CacheOptions): OutcomeCache {
  checkCacheOptions(options)
  const { ttlMs, maxEntries = 1_000, maxBytes = 16 * 1024 * 1024, types, clock = systemClock } = options
  const entries = new Map<string, { readonly text: string; readonly at: number }>()
  let bytes = 0

  const remove = (key: string) => {
    const entry = entries.get(key)
    if (entry === undefined) return
    entries.delete(key)
    bytes -= entry.text.length
  }

  return {
    accepts: (action) => types === undefined || types.includes(action.action_type),
    get(key) {
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      remove(key)
      const age = clock.now() - entry.at
      if (age < 0 || age >= ttlMs) return undefined // below 0: the clock was set back, and nobody knows how old it is
      entries.set(key, entry) // asked for just now: last to go
      bytes += entry.text.length
      return JSON.parse(entry.text)
    },
    set(key, outcome) {
      const text = JSON.stringify(outcome)
      remove(key)
      if (text.length > maxBytes) return
      entries.set(key, { text, at: clock.now() })
      bytes += text.length
      for (const oldest of entries.keys()) {
        if (entries.size <= maxEntries && bytes <= maxBytes) return
        remove(oldest)
      }
    },
  }
}

export function withCache(adapter: Adapter, cache: OutcomeCache): Adapter {
  return decorated(adapter, async (action, call) => {
    const cacheable = call.resume === undefined && cache.accepts(action) && isReadOnly(adapter, action.params)
    if (!cacheable) return adapter.execute(action, call)
    const key = digestOf(canonical([action.action_type, call.role ?? null, action.params]))
    const known = cache.get(key)
    if (known !== undefined) return { ...known, cached: true }
    const { token_usage, cost, ...outcome } = await adapter.execute(action, call)
    cache.set(key, outcome) // what it cost was paid once
    return { ...outcome, ...(token_usage && { token_usage }), ...(cost === undefined ? {} : { cost }) }
  })
}
