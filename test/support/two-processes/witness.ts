import type { EntryBody, EntryChange } from '../../../src/psg/change.ts'
import { isFieldChange } from '../../../src/psg/field-change.ts'
import { placeOf } from '../../../src/psg/node.ts'
import type { Backend } from '../../../src/vsl/backend.ts'

/** Stands at the store and sees what becomes true the moment it does: what has ended, and who owns the context. */
export interface Witness<Life> {
  /** The store as it is given to a life. */
  seen(store: Backend, life: Life): Backend
  /** To be called when a life calls an action; what it returns, when the call reaches the world. The signal tells the action to stop. */
  called(life: Life, key: string, signal?: AbortSignal): () => void
  /** To be called when a life is frozen or dies: it cannot notice that its lease is over. */
  frozen(life: Life): void
  hasEnded(plan: string): boolean
  /** Is a run being taken back? */
  goesBack(): boolean
}

export function witness<Life>(context: string, faults: string[]): Witness<Life> {
  const keys = new Map<string, string>()
  const completed = new Set<string>()
  /** How often an action may have been called, by the attempts on record; and how often each key was. */
  const attempts = new Map<string, number>()
  const calls = new Map<string, number>()
  const ended = new Set<string>()
  const underWay = new Set<{ readonly life: Life; readonly key: string; readonly signal: AbortSignal }>()
  let owner: Life | undefined
  let token = 0
  let goesBack = false
  /** Owners that were frozen since they became it. */
  const wereFrozen = new Set<Life>()

  function landed(change: EntryChange): void {
    const { kind, id, group } = placeOf(change.key)
    const now = isFieldChange(change) ? change.now : change.after?.data
    if (kind === 'run' && now?.phase !== undefined) goesBack = now.phase === 'undoing'
    if (kind === 'run' && now?.phase === 'ended') ended.add(group)
    if (kind !== 'action') return
    if (now?.idempotency_key !== undefined) keys.set(id, String(now.idempotency_key))
    if (now?.status === 'completed') completed.add(keys.get(id)!)
    if (now?.attempts !== undefined) attempts.set(id, Number(now.attempts))
  }

  /** Somebody else has become the owner: whoever was it has noticed in time that his lease is over, unless he could not. */
  function outlives({ life, key, signal }: { life: Life; key: string; signal: AbortSignal }): void {
    if (life === owner && !signal.aborted && !wereFrozen.has(life))
      faults.push(`${key} goes on though its lease is over`)
  }

  function begun(key: string): number {
    let sum = 0
    for (const [id, count] of attempts) if (keys.get(id) === key) sum += count
    return sum
  }

  return {
    seen: (store, life) =>
      new Proxy(store, {
        get(target, name) {
          if (name === 'commit')
            return async (write: Parameters<Backend['commit']>[0]) => {
              await target.commit(write)
              if (write.stream !== context) return
              if (write.fence !== undefined && write.fence !== token)
                faults.push(`a write landed under token ${write.fence} when the owner had ${token}`)
              if (write.entry) (write.entry as EntryBody).changes.forEach(landed)
            }
          if (name === 'acquire')
            return async (...args: Parameters<Backend['acquire']>) => {
              const lease = await target.acquire(...args)
              if (!lease || lease.stream !== context) return lease
              if (owner !== life) underWay.forEach(outlives)
              owner = life
              token = lease.token
              wereFrozen.delete(life)
              return lease
            }
          return Reflect.get(target, name)
        },
      }),
    frozen(life) {
      if (owner === life) wereFrozen.add(life)
    },
    called(life, key, signal = ABORTED) {
      const call = { life, key, signal }
      underWay.add(call)
      const wasDone = completed.has(key)
      const count = (calls.get(key) ?? 0) + 1
      calls.set(key, count)
      if (count > begun(key)) faults.push(`${key} was called before its attempt was committed`)
      return () => {
        underWay.delete(call)
        if (!completed.has(key)) return
        // No fence stops a call on its way to a tool: one that left in time, or left from somebody who slept through the end of his lease.
        const isLate = owner !== life && (!wasDone || wereFrozen.has(life))
        if (!isLate) faults.push(`${key} ran again after its end was committed`)
      }
    },
    hasEnded: (plan) => ended.has(plan),
    goesBack: () => goesBack,
  }
}

/** Of a call that nobody is to stop. */
const ABORTED = AbortSignal.abort()
