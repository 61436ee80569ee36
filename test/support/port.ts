import type { Backend } from '../../src/vsl/backend.ts'

/** What stands between a life and the world: every call waits for its turn twice, to reach the world and to be answered. */
export interface Port {
  pass<T>(work: () => T | Promise<T>): Promise<T>
  /** Resolves at once, when a frozen life thaws, or never for a dead one. */
  awake(): Promise<void>
  /** Calls whose turn has not come. */
  readonly waiting: (() => void)[]
  readonly dead: boolean
  readonly frozen: boolean
  /** From now on nothing reaches the world, and no answer comes back. */
  die(): void
  /** Until `thaw`, no call has its turn and nobody wakes. */
  freeze(): void
  thaw(): void
}

/** `strikes` is asked of every call before it has any effect, and after it had but before anybody hears of it: true kills. */
export function portOf(strikes: (when: 'before' | 'after') => boolean = () => false): Port {
  const waiting: (() => void)[] = []
  const asleep: (() => void)[] = []
  const state = { dead: false, frozen: false }
  const turn = () => new Promise<void>((resolve) => waiting.push(resolve))
  const die = () => {
    state.dead = true
    waiting.length = asleep.length = 0
  }
  const isStruck = (when: 'before' | 'after') => {
    if (!state.dead && strikes(when)) die()
    return state.dead
  }
  return {
    waiting,
    get dead() {
      return state.dead
    },
    get frozen() {
      return state.frozen
    },
    die,
    freeze() {
      state.frozen = true
    },
    thaw() {
      state.frozen = false
      for (const wake of asleep.splice(0)) wake()
    },
    async awake() {
      if (state.dead) return NEVER
      if (state.frozen) await new Promise<void>((resolve) => asleep.push(resolve))
    },
    async pass(work) {
      if (state.dead) return NEVER
      await turn()
      if (isStruck('before')) return NEVER
      const result = await Promise.resolve()
        .then(work)
        .then(
          (value) => ({ value }),
          (error) => ({ error }),
        )
      if (isStruck('after')) return NEVER
      await turn()
      if ('error' in result) throw result.error
      return result.value
    },
  }
}
const NEVER = new Promise<never>(() => undefined)

/** Lets one of the calls that wait at these ports go on; false when none can. */
export function goOn(ports: readonly Port[], random: () => number): boolean {
  const able = ports.flatMap(({ frozen, waiting }) => (frozen ? [] : waiting.map((_, at) => ({ waiting, at }))))
  const chosen = able[Math.floor(random() * able.length)]
  if (!chosen) return false
  const [go] = chosen.waiting.splice(chosen.at, 1)
  go?.()
  return true
}

/** Everything that needs no answer from a port has happened. */
export const settle = async () => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** A store whose every call goes through the port; iterations begin there. */
export function ported(store: Backend, port: Port): Backend {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name === 'scan' || name === 'read' || name === 'feed' || name === 'blobs')
        return async function* (...args: unknown[]) {
          await port.pass(() => undefined)
          for await (const item of value.apply(target, args) as AsyncIterable<unknown>) {
            await port.awake()
            yield item
          }
        }
      return (...args: unknown[]) => port.pass(() => value.apply(target, args))
    },
  })
}
