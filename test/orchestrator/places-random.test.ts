import fc from 'fast-check'
import { expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import type { AtOnce } from '../../src/ael/places.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, RuleViolation } from '../../src/protocol/errors.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { isKind } from '../../src/psg/node.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'
import { type World, worldOf } from '../support/mortal-runtime.ts'

const TYPES = ['one', 'two'] as const

interface Fate {
  readonly type: (typeof TYPES)[number]
  readonly after: readonly number[]
  readonly failures: number
  readonly attempts: number
  readonly delay_ms: number
  readonly on_failure: 'fail' | 'skip' | 'continue' | 'compensate'
  readonly answer: 'approved' | 'rejected' | undefined
  readonly works_ms: number
  readonly inverse: boolean
}

interface Story {
  readonly plans: readonly (readonly Fate[])[]
  readonly limits: AtOnce
  readonly concurrency: number
  /** When each is cancelled, and when the process is closed or dies, in milliseconds from the start. */
  readonly cancels: readonly (number | undefined)[]
  readonly leaves: readonly { readonly at: number; readonly how: 'close' | 'die' }[]
}

const fate = (place: number): fc.Arbitrary<Fate> =>
  fc.record({
    type: fc.constantFrom(...TYPES),
    after: place === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat(place - 1), { maxLength: 1 }),
    failures: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(2) }),
    attempts: fc.integer({ min: 1, max: 3 }),
    delay_ms: fc.constantFrom(0, 300),
    on_failure: fc.constantFrom('fail', 'skip', 'continue', 'compensate'),
    answer: fc.constantFrom(undefined, undefined, undefined, 'approved', 'rejected'),
    works_ms: fc.constantFrom(0, 100, 700),
    inverse: fc.boolean(),
  })
const plan = fc
  .integer({ min: 1, max: 5 })
  .chain((length) => fc.tuple(...Array.from({ length }, (_, i) => fate(i)))) as fc.Arbitrary<readonly Fate[]>
const places = fc.integer({ min: 1, max: 3 })
const at = fc.constantFrom(100, 500, 1_500, 3_000)
const story: fc.Arbitrary<Story> = fc.record({
  plans: fc.array(plan, { minLength: 1, maxLength: 4 }),
  limits: fc
    .record({ one: places, two: places, '*': places }, { requiredKeys: [] })
    .filter((limits) => Object.keys(limits).length > 0),
  concurrency: fc.integer({ min: 1, max: 4 }),
  cancels: fc.array(fc.option(at, { nil: undefined, freq: 3 }), { minLength: 4, maxLength: 4 }),
  leaves: fc.array(fc.record({ at, how: fc.constantFrom('close', 'die') }), { maxLength: 2 }),
})

/** Longer than any of these stories: whoever is not done by then hangs. */
const MOST_ROUNDS = 600

const isWithin = (limits: AtOnce, types: readonly string[]): boolean =>
  Object.entries(limits).every(
    ([limited, most]) => types.filter((type) => limited === '*' || type === limited).length <= most,
  )

async function lived({ plans, limits, concurrency, cancels, leaves }: Story, seed: number): Promise<void> {
  const clock = manualClock({ seed })
  const began = clock.now()
  const failed = new Map<string, number>()
  /** What has ended, or was cut off, by execution. */
  const over = new Set<string>()
  let graphs: ProjectGraph[] = []
  let layer: ActionLayer | undefined
  const breaches: string[] = [] // what is thrown where they are noticed would be an action's failure
  const look = (what: string, types: readonly string[]) => {
    if (!isWithin(limits, types)) breaches.push(`${types.join(', ')} ${what}`)
  }

  const work = async (args: unknown) => {
    const { run, step } = args as { run: number; step: number | 'undo' }
    const { works_ms, failures } = step === 'undo' ? { works_ms: 100, failures: 0 } : plans[run]![step]!
    if (works_ms > 0) await clock.sleep(works_ms)
    const before = failed.get(`${run} ${step}`) ?? 0
    failed.set(`${run} ${step}`, before + 1)
    if (before < failures) throw new ActionError('action_failed', 'not yet', { retryable: true })
    return null
  }
  const newLayer = (): ActionLayer => {
    const under: string[] = []
    const adapters = TYPES.map((type) =>
      functionAdapter(
        {
          async work(args) {
            under.push(type)
            look('is carried out', under)
            return work(args).finally(() => under.splice(under.indexOf(type), 1))
          },
        },
        { action_type: type },
      ),
    )
    const made = actionLayer({ adapters, clock, atOnce: limits })
    layer = made
    return {
      ...made,
      attempt: (action, call) => made.attempt(action, call).finally(() => over.add(call!.execution_id!)),
    }
  }
  const running = () =>
    graphs
      .flatMap((graph) => [...graph.state.nodes()].filter((node) => isKind(node, 'action')).map(({ data }) => data))
      .filter(({ status, execution_id }) => status === 'running' && !over.has(execution_id))
  const onCommit = () =>
    look(
      'is on record',
      running().map(({ action_type }) => action_type!),
    )
  const world: World = worldOf(memoryBackend({ clock }), clock, {}, () => ({ layer: newLayer(), onCommit }))

  const flows = plans.map((fates, run) =>
    flowOf(
      Object.fromEntries(
        fates.map(({ type, after, attempts, delay_ms, on_failure, answer, inverse }, step) => [
          `s${step}`,
          {
            after: after.map((n) => `s${n}`),
            binding: {
              action_type: type,
              params: { name: 'work', args: { run, step } },
              on_failure,
              retry: { strategy: 'fixed', max_attempts: attempts, delay_ms },
              ...(answer && { approval: 'ask' }),
              ...(inverse && { inverse: { action_type: type, params: { name: 'work', args: { run, step: 'undo' } } } }),
            },
          },
        ]),
      ),
      { options: { concurrency } },
      clock,
    ),
  )
  const answerAll = async (runtime: Runtime) => {
    for (const { confirm, shows } of await runtime.waiting()) {
      const { run, step } = (shows!.arguments as { args: { run: number; step: number } }).args
      await runtime
        .decide(confirm.confirm_id, { status: plans[run]![step]!.answer!, decided_by_role: 'person' })
        .catch((error) => {
          if (!(error instanceof RuleViolation)) throw error // an earlier answer has ended the run, and this question with it
        })
    }
  }
  const left = () => {
    for (const { execution_id } of running()) over.add(execution_id)
    graphs = []
    world.die()
  }

  for (const flow of flows) await world.ask((runtime) => runtime.submit(flow))
  const wishes = [...cancels]
  const leaving = [...leaves].sort((a, b) => a.at - b.at)
  const step = () => clock.advance(Math.min(100, Math.max(1, (clock.nextWake ?? 0) - clock.now())))
  for (let round = 0; ; round++) {
    if (round > MOST_ROUNDS) throw new Error('a run neither ended nor said what it waits for')
    if (graphs.length === 0)
      graphs = (await world.ask((runtime) =>
        Promise.all(flows.map(({ plan }) => runtime.project.context(plan.context_id))),
      ))!
    for (const [i, { plan }] of flows.entries())
      if (wishes[i] !== undefined && clock.now() - began >= wishes[i]) {
        wishes[i] = undefined
        await world.ask((runtime) => runtime.cancel(plan.plan_id))
      }
    await world.ask(answerAll)
    if (leaving[0] !== undefined && clock.now() - began >= leaving[0].at) {
      if (leaving.shift()!.how === 'close') {
        let closed = false
        const closing = world
          .ask((runtime) => runtime.close())
          .then(() => {
            closed = true
          })
        for (let i = 0; !closed && i < MOST_ROUNDS; i++) await step()
        await closing
      }
      left()
      continue
    }
    const phases = await world.ask((runtime) =>
      Promise.all(flows.map(async ({ plan }) => (await runtime.get(plan.plan_id)).phase)),
    )
    if (phases!.every((phase) => phase === 'ended')) break
    await step()
  }
  expect(breaches).toEqual([])
  expect(world.errors).toEqual([])
  expect(running()).toEqual([])
  for (const type of TYPES) expect(freePlaces(layer!, type)).toBe(Math.min(limits[type] ?? 9, limits['*'] ?? 9))
  await world.close()
}

/** How many attempts of a type could be made now; nine where there is no limit. */
function freePlaces({ places }: ActionLayer, type: string): number {
  const line = places!.line(() => undefined)
  const taken: string[] = []
  while (taken.length < 9 && line.has(type)) {
    taken.push(`${type} ${taken.length}`)
    line.take(type, taken.at(-1)!)
  }
  line.close()
  for (const one of taken) places!.leave(one)
  return taken.length
}

it('has no more under way, and no more on record as under way, than there are places, and everything comes to its end', async () => {
  await fc.assert(
    fc.asyncProperty(story, fc.nat(1_000_000), (told, seed) => lived(told, seed)),
    { numRuns: 100 },
  )
}, 240_000)
