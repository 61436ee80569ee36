import { onAbort } from '../protocol/on-abort.ts'

/** Lets followers sleep until there is something to read. */
export interface Wakeable {
  wake(): void
  /** True when woken, false when aborted or ended. A wake between two waits is not kept: read again before each wait. */
  wait(signal?: AbortSignal): Promise<boolean>
  /** Sends every sleeper home for good. */
  end(): void
}

export function wakeable(): Wakeable {
  let ended = false
  let sleepers: ((woken: boolean) => void)[] = []
  const rouse = (woken: boolean) => {
    const all = sleepers
    sleepers = []
    for (const sleeper of all) sleeper(woken)
  }
  return {
    wake: () => rouse(true),
    wait(signal) {
      if (ended || signal?.aborted) return Promise.resolve(false)
      return new Promise((resolve) => {
        const settle = (woken: boolean) => {
          forget?.()
          sleepers = sleepers.filter((s) => s !== settle)
          resolve(woken)
        }
        const forget = signal && onAbort(signal, () => settle(false))
        sleepers.push(settle)
      })
    },
    end() {
      ended = true
      rouse(false)
    },
  }
}
