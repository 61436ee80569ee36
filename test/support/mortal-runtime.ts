import type { FunctionSpec } from '../../src/ael/function.ts'
import type { Runtime, RuntimeOptions } from '../../src/orchestrator/runtime.ts'
import type { ManualClock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { runtimeOf } from './flows.ts'

/** A store as a process sees it that dies: from then on nothing is answered any more. */
export function mortal(store: Backend): { store: Backend; die: () => void } {
  let dead = false
  const mine = new Proxy(store, {
    get: (target, name) => {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => (dead ? silence() : value.apply(target, args))
    },
  })
  return {
    store: mine,
    die() {
      dead = true
    },
  }
}

/** What is not answered, be it one thing that was asked for or one after the other. */
const silence = () =>
  Object.assign(new Promise(() => undefined), {
    [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }),
  })

/** One store, and a runtime on it that can die and is then followed by another. */
export interface World {
  /** Asks the one that lives, or a new one when the last has died; `undefined` when it dies over the question. */
  ask<T>(work: (runtime: Runtime) => Promise<T>): Promise<T | undefined>
  die(): void
  /** What a living one could not tell anybody. */
  readonly errors: readonly unknown[]
  close(): Promise<void>
}

export function worldOf(
  store: Backend,
  clock: ManualClock,
  functions: { readonly [name: string]: FunctionSpec },
  more: () => Partial<RuntimeOptions> = () => ({}),
): World {
  let alive: ReturnType<typeof begin> | undefined
  const errors: unknown[] = []
  const begin = () => {
    const process = mortal(store)
    let dead = false
    let tellDeath = () => {}
    const death = new Promise<undefined>((resolve) => {
      tellDeath = () => resolve(undefined)
    })
    return {
      death,
      die() {
        dead = true
        process.die()
        tellDeath()
      },
      runtime: runtimeOf(functions, {
        clock,
        store: process.store,
        leaseTtlMs: 2_000,
        onError: (error) => dead || errors.push(error),
        ...more(),
      }),
    }
  }
  return {
    errors,
    ask(work) {
      alive ??= begin()
      return Promise.race([alive.runtime.then(work), alive.death])
    },
    die() {
      alive?.die()
      alive = undefined
    },
    async close() {
      const last = alive
      if (!last) return
      const closing = (await last.runtime).close()
      for (let i = 0; i < 40; i++) await clock.advance(500)
      await closing
    },
  }
}
