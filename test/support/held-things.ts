import fc from 'fast-check'
import { expect } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer, newAction } from '../../src/ael/ael.ts'
import { type FunctionCall, type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError, Refused } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { type World, worldOf } from './mortal-runtime.ts'

/** A step that holds so many things, one after the other or all at once, itself or by another function, and then fails so often before it does not. */
export interface Fate {
  readonly after: readonly number[]
  readonly holds: number
  readonly failures: number
  readonly attempts: number
  readonly checkpoints: boolean
  readonly atOnce: boolean
  readonly deep: boolean
  readonly on_failure: 'fail' | 'skip' | 'continue' | 'compensate'
  /** It has an inverse of its own, which lets all of it go. */
  readonly whole: boolean
}
/** Each part of a fate; a step waits only for those before its place. */
export const fateAt = (place: number): { readonly [P in keyof Fate]: fc.Arbitrary<Fate[P]> } => ({
  after: place === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat(place - 1), { maxLength: 2 }),
  holds: fc.nat(3),
  failures: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
  attempts: fc.integer({ min: 1, max: 3 }),
  checkpoints: fc.boolean(),
  atOnce: fc.boolean(),
  deep: fc.boolean(),
  on_failure: fc.constantFrom('fail', 'skip', 'continue', 'compensate'),
  whole: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
})

/** After so many things were held or let go the process dies; `before` it has done the last one, or just after. */
export interface Death {
  readonly after: number
  readonly before: boolean
}
export const deaths: fc.Arbitrary<readonly Death[]> = fc.oneof(
  fc.constant([]),
  fc.array(fc.record({ after: fc.integer({ min: 1, max: 6 }), before: fc.boolean() }), { minLength: 1, maxLength: 3 }),
)

/** A step of that fate calls `work`; all that it holds begins with its number. */
export const workBinding = ({ attempts, on_failure, whole }: Fate, step: number, args?: JsonObject): BindingSpec => ({
  action_type: 'function',
  on_failure,
  params: { name: 'work', args: { step, ...args } },
  retry: { strategy: 'fixed', max_attempts: attempts, delay_ms: 100 },
  ...(whole && { inverse: { action_type: 'grip', params: { what: `${step}.`, on: false } } }),
})

const never = new Promise<never>(() => undefined)
/** Longer than any of these stories: whoever is not done by then hangs. */
const MOST_ROUNDS = 3_000

/** What functions of these processes hold things by. */
export interface Grip {
  readonly clock: ManualClock
  /** Holds one thing, under a key of its own. */
  one(what: string, key: string, call: FunctionCall): Promise<unknown>
  /** One of those that a fate says. */
  nth(fate: Fate, what: string, i: number, call: FunctionCall): Promise<void>
  /** All that a fate says, from where the last attempt came to. */
  all(fate: Fate, what: string, call: FunctionCall): Promise<void>
  /** Throws as often as it says of a step. */
  fails(step: number, failures: number): void
}
type Functions = { readonly [name: string]: FunctionSpec }

/** Whatever becomes of these stories, what they told is taken back, and of some there is something to be. */
export async function allTakenBack<Story>(
  stories: fc.Arbitrary<Story>,
  takenBack: (story: Story, seed: number) => ReturnType<ReturnType<typeof holders>['takenBack']>,
  numRuns: number,
): Promise<void> {
  let told = 0
  await fc.assert(
    fc.asyncProperty(stories, fc.nat(1_000_000), async (given, seed) => {
      const { report, wrong } = await takenBack(given, seed)
      expect(wrong).toEqual({ faults: [], left: [], twice: [], errors: [] })
      expect(['done', 'nothing']).toContain(report.status)
      told += report.effects.length
    }),
    { numRuns },
  )
  expect(told).toBeGreaterThan(0)
}

/** A store and processes on it that hold things, let them go, and die of it. */
export function holders(dying: readonly Death[], seed: number, functionsOf: (grip: Grip) => Functions) {
  const clock = manualClock({ seed })
  const store = memoryBackend({ clock })
  const held = new Map<string, Set<number>>()
  const letGo = new Map<string, number>()
  const dead = new Set<number>()
  const toCome = [...dying]
  let done = 0
  let lives = 0

  const letsGo = (what: string, key: string) => {
    const times = `${what} by ${key}`
    letGo.set(times, (letGo.get(times) ?? 0) + 1)
    for (const one of [...held.keys()]) if (one.startsWith(what)) held.delete(one)
  }
  /** `{ what, on }`: holds it, or lets go whatever begins so. The dead do neither. */
  const grip = (life: number): Adapter => ({
    action_type: 'grip',
    executor_kind: 'worker',
    async execute({ params: { what, on }, idempotency_key }) {
      if (dead.has(life)) return never
      const ends = ++done === toCome[0]?.after
      const { before } = ends ? toCome.shift()! : { before: false }
      if (!before) {
        if (on) held.set(String(what), (held.get(String(what)) ?? new Set()).add(life))
        else letsGo(String(what), idempotency_key)
      }
      if (!ends) return {}
      done = 0
      dead.add(life)
      world.die()
      return never
    },
    inverse: ({ params: { what, on } }) =>
      on ? newAction({ action_type: 'grip', params: { what: what!, on: false } }, clock) : 'none_needed',
  })
  const functions = functionsWith(functionsOf, clock)
  const layerOf = (life: number) => (hands: Hands) =>
    actionLayer({ ...hands, clock, adapters: [grip(life), functionAdapter(functions)] })
  const world: World = worldOf(store, clock, {}, () => ({ layer: layerOf(++lives) }))

  async function comesTo<T>(work: () => Promise<T | undefined>): Promise<T> {
    let result: T | undefined
    let failed: { readonly error: unknown } | undefined
    let asking = false
    for (let round = 0; result === undefined; round++) {
      if (failed) throw failed.error
      if (round > MOST_ROUNDS) throw new Error('it never came to that')
      if (!asking) {
        asking = true
        void work().then(
          (given) => {
            result = given
            asking = false
          },
          (error) => {
            failed = { error }
          },
        )
      }
      await clock.advance(Math.min(1_000, Math.max(1, (clock.nextWake ?? 0) - clock.now())))
      await new Promise((resolve) => setImmediate(resolve))
    }
    return result
  }

  /** Takes the run back; what is `left` is still held although somebody lived to tell of it, and what was let go `twice` although nobody died. */
  async function takenBack(context_id: string, plan_id: string) {
    const goBack = async (runtime: Runtime) => {
      const graph = await runtime.project.context(context_id)
      const { run_id } = await runtime.get(plan_id)
      return rollback({ graph, layer: layerOf(lives)({}) }, run_id).catch((error) => {
        if (!(error instanceof Refused)) throw error
        return undefined // one that died on its way back still holds the lease
      })
    }
    const report = await comesTo(() => world.ask(goBack))
    const graph = (await world.ask((runtime) => runtime.project.context(context_id)))!
    const faults = await graph.verify()
    await world.close()
    const left = [...held.keys()].filter((what) => ![...held.get(what)!].every((life) => dead.has(life)))
    const twice = dead.size > 0 ? [] : [...letGo.keys()].filter((times) => letGo.get(times)! > 1)
    return { report, wrong: { faults, left, twice, errors: world.errors } }
  }

  return { clock, ask: world.ask, comesTo, takenBack }
}

function functionsWith(functionsOf: (grip: Grip) => Functions, clock: ManualClock): Functions {
  const one: Grip['one'] = (what, key, { act }) =>
    act({ ...newAction({ action_type: 'grip', params: { what, on: true } }, clock), idempotency_key: key })
  const hold: FunctionSpec = async (args, call) => {
    const { what, key } = args as { what: string; key: string }
    await one(what, key, call)
    return null
  }
  const nth: Grip['nth'] = async ({ checkpoints, atOnce, deep }, of, i, call) => {
    const [what, key] = [`${of}.${i}`, `${call.idempotency_key}.${i}`]
    if (deep)
      await call.act(newAction({ action_type: 'function', params: { name: 'hold', args: { what, key } } }, clock))
    else await one(what, key, call)
    if (checkpoints) await call.checkpoint(atOnce ? 0 : i + 1)
  }
  const all: Grip['all'] = async (fate, what, call) => {
    const from = Number(call.resume ?? 0)
    const open = Array.from({ length: Math.max(0, fate.holds - from) }, (_, i) => from + i)
    if (fate.atOnce) await Promise.all(open.map((i) => nth(fate, what, i, call)))
    else for (const i of open) await nth(fate, what, i, call)
  }
  const failed = new Map<number, number>()
  const fails: Grip['fails'] = (step, failures) => {
    const before = failed.get(step) ?? 0
    failed.set(step, before + 1)
    if (before < failures) throw new ActionError('action_failed', `failure ${before + 1}`, { retryable: true })
  }
  return { ...functionsOf({ clock, one, nth, all, fails }), hold }
}
