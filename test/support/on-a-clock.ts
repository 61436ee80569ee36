import type { FunctionSpec } from '../../src/ael/function.ts'
import type { RuntimeOptions } from '../../src/orchestrator/runtime.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, runtimeOf, type StepSpec } from './flows.ts'
import { mortal } from './mortal-runtime.ts'

/** Something that others wait for until it is opened. */
export function door() {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

/** Lets time pass, a little at a time, until something holds. */
export async function until(clock: ManualClock, holds: () => boolean): Promise<void> {
  for (let i = 0; i < 3_000; i++) {
    if (holds()) return
    await clock.advance(50)
    await new Promise((resolve) => setImmediate(resolve))
  }
  throw new Error('it never came to that')
}

export async function inTime<T>(clock: ManualClock, wanted: Promise<T>): Promise<T> {
  let done = false
  wanted.then(
    () => {
      done = true
    },
    () => {
      done = true
    },
  )
  await until(clock, () => done)
  return wanted
}

/** So much time passes, whatever happens. */
export async function passes(clock: ManualClock, ms: number): Promise<void> {
  const end = clock.now() + ms
  await until(clock, () => clock.now() >= end)
}

/** Functions that do nothing but write down, in `called`, that they were. */
export function noted(...names: readonly string[]) {
  const called: string[] = []
  const functions = Object.fromEntries(names.map((name) => [name, () => void called.push(name)]))
  return { called, functions }
}

/** A store with a clock, and processes on it that can die; `seen` is how a process sees the store. */
export function world(functions: { readonly [name: string]: FunctionSpec }, more: Partial<RuntimeOptions> = {}) {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  return {
    store,
    clock,
    async start(options: Partial<RuntimeOptions> = {}, seen: (store: Backend) => Backend = (same) => same) {
      const process = mortal(seen(store))
      const given = { clock, leaseTtlMs: 500, patrolMs: 50, ...more, ...options }
      return { ...(await runtimeOf(functions, { ...given, store: process.store })), die: process.die }
    },
  }
}

/** A run of two steps, and more if given, in the midst of its first, which goes on until `slow` is opened. */
export async function inTheFirstOfTwo(
  more: { readonly [name: string]: StepSpec } = {},
  seen?: (store: Backend) => Backend,
) {
  const called: string[] = []
  const slow = door()
  const given = world({
    one: async () => {
      called.push('one')
      await slow.opened
      return 1
    },
    two: () => void called.push('two'),
  })
  const first = await given.start({}, seen)
  const run = await first.submit(flowOf({ one: {}, two: { after: ['one'] }, ...more }))
  await until(given.clock, () => called.length > 0)
  return { ...given, called, slow, first, run }
}

/** Holds up the first commit whose entry says so, or the reply to it: `reached` when it is there, `letGo` to have it go on. */
export function heldCommit(says: string, held: 'commit' | 'reply' = 'commit') {
  const [arrived, allowed] = [door(), door()]
  let waits = true
  const seen = (store: Backend): Backend => ({
    ...store,
    async commit(write) {
      if (!waits || !JSON.stringify(write.entry ?? null).includes(says)) return store.commit(write)
      waits = false
      if (held === 'reply') await store.commit(write)
      arrived.open()
      await allowed.opened
      if (held === 'commit') await store.commit(write)
    },
  })
  return { seen, reached: arrived.opened, letGo: allowed.open }
}
