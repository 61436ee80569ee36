import type { EntryBody, EntryChange } from '../../../src/psg/change.ts'
import { isFieldChange } from '../../../src/psg/field-change.ts'
import { placeOf } from '../../../src/psg/node.ts'
import type { Backend } from '../../../src/vsl/backend.ts'

/** Stands at the store and sees what becomes true the moment it does: what has ended, and who owns the context. */
export interface Witness<Life> {
  /** The store as it is given to a life. */
  seen(store: Backend, life: Life): Backend
  /** To be called when a life calls an action; what it returns, when the call reaches the world. */
  called(life: Life, key: string): () => void
  /** To be called when a life is frozen: it cannot notice that its lease is over. */
  frozen(life: Life): void
  hasEnded(plan: string): boolean
}

export function witness<Life>(context: string, faults: string[]): Witness<Life> {
  const keys = new Map<string, string>()
  const completed = new Set<string>()
  const ended = new Set<string>()
  let owner: Life | undefined
  /** Owners that were frozen since they became it. */
  const wereFrozen = new Set<Life>()

  function landed(change: EntryChange): void {
    const { kind, id, group } = placeOf(change.key)
    const now = isFieldChange(change) ? change.now : change.after?.data
    if (kind === 'run' && now?.phase === 'ended') ended.add(group)
    if (kind !== 'action') return
    if (now?.idempotency_key !== undefined) keys.set(id, String(now.idempotency_key))
    if (now?.status === 'completed') completed.add(keys.get(id)!)
  }

  return {
    seen: (store, life) =>
      new Proxy(store, {
        get(target, name) {
          if (name === 'commit')
            return async (write: Parameters<Backend['commit']>[0]) => {
              await target.commit(write)
              if (write.stream === context && write.entry) (write.entry as EntryBody).changes.forEach(landed)
            }
          if (name === 'acquire')
            return async (...args: Parameters<Backend['acquire']>) => {
              const lease = await target.acquire(...args)
              if (!lease || lease.stream !== context) return lease
              owner = life
              wereFrozen.delete(life)
              return lease
            }
          return Reflect.get(target, name)
        },
      }),
    frozen(life) {
      if (owner === life) wereFrozen.add(life)
    },
    called(life, key) {
      const wasDone = completed.has(key)
      return () => {
        if (!completed.has(key)) return
        // No fence stops a call on its way to a tool: one that left in time, or left from somebody who slept through the end of his lease.
        const isLate = owner !== life && (!wasDone || wereFrozen.has(life))
        if (!isLate) faults.push(`${key} ran again after its end was committed`)
      }
    },
    hasEnded: (plan) => ended.has(plan),
  }
}
