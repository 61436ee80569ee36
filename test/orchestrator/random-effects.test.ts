import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer, newAction } from '../../src/ael/ael.ts'
import { type FunctionCall, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, Refused } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { type World, worldOf } from '../support/mortal-runtime.ts'

/** A step that holds so many things, one after the other or all at once, itself or by another function, and then fails so often before it does not. */
interface Fate {
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

interface Story {
  readonly fates: readonly Fate[]
  /** After so many things were held or let go the process dies; `before` it has done the last one, or just after. */
  readonly deaths: readonly { readonly after: number; readonly before: boolean }[]
}

const fate = (place: number): fc.Arbitrary<Fate> =>
  fc.record({
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
const story: fc.Arbitrary<Story> = fc.record({
  fates: fc.integer({ min: 1, max: 5 }).chain((length) => fc.tuple(...Array.from({ length }, (_, i) => fate(i)))),
  deaths: fc.array(fc.record({ after: fc.integer({ min: 1, max: 5 }), before: fc.boolean() }), { maxLength: 3 }),
})

const never = new Promise<never>(() => undefined)
/** Longer than any of these stories: whoever is not done by then hangs. */
const MOST_ROUNDS = 600

/** Lives a story through and takes it back; gives what is still held, each with the lives in which it came to be held. */
async function takenBack({ fates, deaths }: Story, seed: number) {
  const clock = manualClock({ seed })
  const store = memoryBackend({ clock })
  const held = new Map<string, Set<number>>()
  const dead = new Set<number>()
  const dying = [...deaths]
  let done = 0
  let lives = 0

  /** `{ what, on }`: holds it, or lets it go. The dead do neither. */
  const grip = (life: number): Adapter => ({
    action_type: 'grip',
    executor_kind: 'worker',
    async execute({ params: { what, on } }) {
      if (dead.has(life)) return never
      const ends = ++done === dying[0]?.after
      const { before } = ends ? dying.shift()! : { before: false }
      if (!before) {
        if (on) held.set(String(what), (held.get(String(what)) ?? new Set()).add(life))
        else for (const one of [...held.keys()]) if (one.startsWith(String(what))) held.delete(one)
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
  const holding = (args: unknown, { act }: FunctionCall) => {
    const { what, key } = args as { what: string; key: string }
    return act({ ...newAction({ action_type: 'grip', params: { what, on: true } }, clock), idempotency_key: key })
  }
  const hold = (args: unknown, call: FunctionCall) => holding(args, call).then(() => null)
  const failed = new Map<number, number>()
  async function work(args: unknown, call: FunctionCall) {
    const { step } = args as { step: number }
    const { holds, failures, checkpoints, atOnce, deep } = fates[step]!
    const hold = async (i: number) => {
      const key = `${call.idempotency_key}.${i}`
      const what = `${step}.${i}`
      if (deep)
        await call.act(newAction({ action_type: 'function', params: { name: 'hold', args: { what, key } } }, clock))
      else await holding({ what, key }, call)
      if (checkpoints) await call.checkpoint(atOnce ? 0 : i + 1)
    }
    const from = Number(call.resume ?? 0)
    const open = Array.from({ length: holds - from }, (_, i) => from + i)
    if (atOnce) await Promise.all(open.map(hold))
    else for (const i of open) await hold(i)
    const before = failed.get(step) ?? 0
    failed.set(step, before + 1)
    if (before < failures) throw new ActionError('action_failed', `failure ${before + 1}`, { retryable: true })
    return step
  }
  const layerOf = (life: number) => (hands: Hands) =>
    actionLayer({ ...hands, clock, adapters: [grip(life), functionAdapter({ work, hold })] })
  const world: World = worldOf(store, clock, {}, () => ({ layer: layerOf(++lives) }))

  const specs: { [name: string]: StepSpec } = {}
  for (const [i, { after, attempts, on_failure, whole }] of fates.entries())
    specs[`s${i}`] = {
      call: 'work',
      after: after.map((n) => `s${n}`),
      binding: {
        on_failure,
        params: { name: 'work', args: { step: i } },
        retry: { strategy: 'fixed', max_attempts: attempts, delay_ms: 100 },
        ...(whole && { inverse: { action_type: 'grip', params: { what: `${i}.`, on: false } } }),
      },
    }
  const flow = flowOf(specs, {}, clock)
  const { plan_id, context_id } = flow.plan
  await world.ask((runtime) => runtime.submit(flow))
  const comesTo = async <T>(work: () => Promise<T | undefined>): Promise<T> => {
    let result: T | undefined
    let asking = false
    for (let round = 0; result === undefined; round++) {
      if (round > MOST_ROUNDS) throw new Error('it never came to that')
      if (!asking) {
        asking = true
        void work().then((given) => {
          result = given
          asking = false
        })
      }
      await clock.advance(Math.min(250, Math.max(1, (clock.nextWake ?? 0) - clock.now())))
      await new Promise((resolve) => setImmediate(resolve))
    }
    return result
  }
  await comesTo(async () =>
    (await world.ask((runtime) => runtime.get(plan_id)))?.phase === 'ended' ? true : undefined,
  )
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
  expect(await graph.verify()).toEqual([])
  expect(world.errors).toEqual([])
  await world.close()
  return { held, dead, report }
}

describe('what any plan did', () => {
  it('is all taken back, by the run itself or afterwards, but for what nobody lived to tell', async () => {
    let told = 0
    await fc.assert(
      fc.asyncProperty(story, fc.nat(1_000_000), async (given, seed) => {
        const { held, dead, report } = await takenBack(given, seed)
        expect(['done', 'nothing']).toContain(report.status)
        told += report.effects.length
        for (const [what, lives] of held)
          expect(
            [...lives].every((life) => dead.has(life)),
            what,
          ).toBe(true)
        if (given.deaths.length === 0) expect([...held.keys()]).toEqual([])
      }),
      { numRuns: 100 },
    )
    expect(told).toBeGreaterThan(0)
  }, 240_000)
})
