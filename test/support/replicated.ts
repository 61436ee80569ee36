import type { Clock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

/** A store with a replica that may lag behind and then takes its place: what was acknowledged since is lost, leases and tokens too. */
export interface Replicated {
  readonly store: Backend
  /** From here on the replica hears of nothing. */
  lag(): void
  failOver(): void
}

const WRITES: ReadonlySet<string> = new Set([
  'set',
  'delete',
  'commit',
  'acquire',
  'renew',
  'release',
  'putBlob',
  'forgetBlobs',
])

export function replicated(clock: Clock): Replicated {
  const replica = memoryBackend({ clock })
  let primary = memoryBackend({ clock })
  let lags = false
  const call = async (name: string, args: readonly unknown[]) => {
    const on = (backend: Backend) => (Reflect.get(backend, name) as (...args: unknown[]) => Promise<unknown>)(...args)
    const answer = await on(primary)
    if (!lags) await on(replica)
    return answer
  }
  const store = new Proxy(primary, {
    get(_, name) {
      if (WRITES.has(String(name))) return (...args: unknown[]) => call(String(name), args)
      return Reflect.get(primary, name)
    },
  })
  return {
    store,
    lag() {
      lags = true
    },
    failOver() {
      lags = true
      primary = replica
    },
  }
}
