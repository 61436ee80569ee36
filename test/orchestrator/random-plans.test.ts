import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import { eventKind } from '../../src/protocol/base-event.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput, RuleViolation } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { problems, profileProblems } from '../../src/protocol/validate.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Entry } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { type World, worldOf } from '../support/mortal-runtime.ts'

/** What a random step does: how often it fails before it does not, and what happens meanwhile. */
interface Fate {
  readonly after: readonly number[]
  readonly failures: number
  readonly attempts: number
  readonly delay_ms: number
  readonly on_failure: 'fail' | 'skip' | 'continue' | 'compensate'
  readonly asks: boolean
  readonly approved: boolean
  readonly works_ms: number
  /** It waits for a signal of its name for no longer than this; when that comes, from the start, if it does. */
  readonly waits: { readonly timeout_ms: number; readonly comes: number | undefined } | undefined
}

interface Story {
  readonly fates: readonly Fate[]
  readonly concurrency: number
  /** Adapter calls after which the process dies. */
  readonly deaths: readonly number[]
  /** When somebody cancels, in milliseconds from the start. */
  readonly cancel: number | undefined
}

const fate = (place: number): fc.Arbitrary<Fate> =>
  fc.record({
    after: place === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat(place - 1), { maxLength: 3 }),
    failures: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
    attempts: fc.integer({ min: 1, max: 3 }),
    delay_ms: fc.constantFrom(0, 300, 2_000),
    on_failure: fc.constantFrom('fail', 'skip', 'continue', 'compensate'),
    asks: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    approved: fc.boolean(),
    works_ms: fc.constantFrom(0, 0, 100, 1_500),
    waits: fc.option(
      fc.record({
        timeout_ms: fc.constantFrom(100, 900, 5_000),
        comes: fc.option(fc.constantFrom(0, 300, 1_000), { nil: undefined }),
      }),
      { nil: undefined, freq: 5 },
    ),
  })
const story: fc.Arbitrary<Story> = fc.record({
  fates: fc.integer({ min: 1, max: 7 }).chain((length) => fc.tuple(...Array.from({ length }, (_, i) => fate(i)))),
  concurrency: fc.integer({ min: 1, max: 4 }),
  deaths: fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 2 }),
  cancel: fc.option(fc.constantFrom(0, 150, 1_000, 4_000), { nil: undefined }),
})

/** Longer than any of these stories: whoever is not done by then hangs. */
const MOST_ROUNDS = 400

/** Lives a story through, and hands over what is left of it. */
async function lived({ fates, concurrency, deaths, cancel }: Story, seed: number) {
  const clock = manualClock({ seed })
  const store = memoryBackend({ clock })
  const specs: { [name: string]: StepSpec } = {}
  for (const [i, { after, attempts, delay_ms, on_failure, asks, waits }] of fates.entries())
    specs[`s${i}`] = {
      call: 'work',
      after: after.map((n) => `s${n}`),
      binding: {
        on_failure,
        ...(asks && { approval: 'ask' }),
        ...(waits
          ? { action_type: 'wait', params: { signal: `s${i}` }, timeout_ms: waits.timeout_ms }
          : {
              params: { name: 'work', args: { step: i } },
              retry: { strategy: 'fixed', max_attempts: attempts, delay_ms },
            }),
      },
    }
  const flow = flowOf(specs, { options: { concurrency } }, clock)
  const failed = new Map<number, number>()
  let calls = 0
  const dying = [...deaths]
  const world: World = worldOf(store, clock, {
    async work(args) {
      const { step } = args as { step: number }
      const { failures, works_ms } = fates[step]!
      if (++calls === dying[0]) {
        dying.shift()
        calls = 0
        world.die()
      }
      if (works_ms > 0) await clock.sleep(works_ms)
      const before = failed.get(step) ?? 0
      failed.set(step, before + 1)
      if (before < failures) throw new ActionError('action_failed', `failure ${before + 1}`, { retryable: true })
      return { step }
    },
  })
  const began = clock.now()
  const { plan_id, context_id } = flow.plan
  await world.ask((runtime) => runtime.submit(flow))
  let cancelled = cancel === undefined
  const given = new Set<number>()
  for (let round = 0; ; round++) {
    if (round > MOST_ROUNDS) throw new Error('the run neither ended nor said what it waits for')
    if (!cancelled && clock.now() - began >= cancel!) {
      cancelled = true
      await world.ask((runtime) => runtime.cancel(plan_id))
    }
    await world.ask((runtime) => answerAll(runtime, fates))
    for (const [i, { waits }] of fates.entries()) {
      if (waits?.comes === undefined || given.has(i) || clock.now() - began < waits.comes) continue
      given.add(i)
      await world.ask((runtime) => runtime.signal(plan_id, `s${i}`, i).catch(unlessEnded))
    }
    const run = await world.ask((runtime) => runtime.get(plan_id))
    if (run?.phase === 'ended') break
    await world.ask((runtime) => saysWhatFor(runtime, run))
    await clock.advance(Math.min(250, Math.max(1, (clock.nextWake ?? 0) - clock.now())))
  }
  const run = (await world.ask((runtime) => runtime.get(plan_id)))!
  const graph = (await world.ask((runtime) => runtime.project.context(context_id)))!
  const entries: Entry[] = []
  for await (const entry of store.read(context_id)) entries.push(entry)
  return { graph, run, entries, store, ids: flow.ids, fates, world }
}

/** A run that waits says what for: whoever looks at it could not help it otherwise. */
async function saysWhatFor(runtime: Runtime, run: RunHandle | undefined): Promise<void> {
  const graph = run && (await runtime.project.context(run.context_id))
  if (graph?.get('run', run!.run_id)?.data.phase === 'waiting') expect(waitsOf(graph, run!.plan_id)).not.toEqual([])
}

async function answerAll(runtime: Runtime, fates: readonly Fate[]): Promise<void> {
  for (const { confirm, shows } of await runtime.waiting()) {
    const { args, signal } = shows!.arguments as { args?: { step: number }; signal?: string }
    const status = fates[args?.step ?? Number(signal!.slice(1))]!.approved ? 'approved' : 'rejected'
    await runtime.decide(confirm.confirm_id, { status, decided_by_role: 'person' }).catch((error) => {
      if (!(error instanceof RuleViolation)) throw error // an earlier answer has ended the run, and this question with it
    })
  }
}

/** A signal for a run that is over is refused. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof InvalidInput)) throw error
}

/** Everything that must hold of a story, however it went. */
async function judged({ graph, run, entries, store, ids, fates, world }: Awaited<ReturnType<typeof lived>>) {
  expect(await graph.verify()).toEqual([])
  expect(world.errors).toEqual([])

  // No step starts before everything it waits for is over and done, and every change of status is told.
  const status = new Map<string, string>(Object.values(ids).map((id) => [id, 'pending']))
  for (const entry of entries)
    for (const { event } of eventsIn(entry)) {
      const told = event.payload as { resource_type?: string; resource_id?: string; to_status?: string } | undefined
      if (event.event_family !== 'pipeline_stage' || told?.resource_type !== 'step') continue
      if (told.to_status === 'in_progress') {
        const step = Number(
          Object.keys(ids)
            .find((name) => ids[name] === told.resource_id)!
            .slice(1),
        )
        for (const n of fates[step]!.after) expect(['completed', 'skipped']).toContain(status.get(ids[`s${n}`]!))
      }
      status.set(told.resource_id!, told.to_status!)
    }
  // Whatever is told, the protocol accepts it, with a payload that suits it.
  const events = entries.flatMap((entry) => eventsIn(entry).map(({ event }) => event))
  for (const event of events) {
    const kind = eventKind(event)
    expect(kind === 'sa-event' ? profileProblems(kind, event) : problems(kind, event), event.event_type).toEqual([])
  }
  // Every attempt that is told to have begun is told to have ended, once.
  const executions = events.filter((event) => event.event_family === 'runtime_execution')
  const begun = executions.filter(({ event_type }) => String(event_type).endsWith('_started'))
  const over = executions.filter((event) => event.status !== 'running')
  expect(over.map((event) => event.execution_id).sort()).toEqual(begun.map((event) => event.execution_id).sort())
  // So is every step that the single agent began, and the numbers at its end are those of what it told.
  const ofSteps = (type: string) =>
    events.flatMap(({ event_type, payload }) => (event_type === type ? [String((payload as JsonObject).step_id)] : []))
  const [started, succeeded, failed] = ['SAStepStarted', 'SAStepCompleted', 'SAStepFailed'].map(ofSteps)
  expect([...succeeded!, ...failed!].sort()).toEqual(started!.sort())
  expect(events.findLast(({ event_type }) => event_type === 'SACompleted')?.payload).toMatchObject({
    steps_executed: started!.length,
    steps_succeeded: succeeded!.length,
    steps_failed: failed!.length,
  })

  const plan = await graph.document('plan', run.plan_id)
  expect(Object.fromEntries(status)).toEqual(Object.fromEntries(plan.steps.map((step) => [step.step_id, step.status])))

  // Nothing comes of waiting for what nobody says.
  for (const [i, { waits }] of fates.entries())
    if (waits && waits.comes === undefined) expect(status.get(ids[`s${i}`]!)).not.toBe('completed')

  // It ended, and nothing of it is left to be waited for.
  expect(['completed', 'failed', 'cancelled']).toContain(plan.status)
  for (const index of ['timer/', 'waiting/', 'running/', 'resting/'])
    for await (const [key] of store.scan(index)) throw new Error(`${key} is left`)
  const trace = await graph.document('trace', run.trace_id)
  expect(trace.segments?.filter((segment) => segment.status === 'running')).toEqual([])
}

describe('any plan', () => {
  it('keeps order, tells everything, loses no timer and comes to an end, whatever fails, is asked, cancelled or dies', async () => {
    await fc.assert(
      fc.asyncProperty(story, fc.nat(1_000_000), async (told, seed) => {
        const left = await lived(told, seed)
        await judged(left)
        await left.world.close()
      }),
      { numRuns: 300 },
    )
  }, 240_000)

  it('gives the same bytes when it is run again with the same clock', async () => {
    await fc.assert(
      fc.asyncProperty(story, fc.nat(1_000_000), async (told, seed) => {
        const bytes = async () => {
          const left = await lived({ ...told, deaths: [] }, seed)
          const feed: string[] = []
          for await (const entry of left.store.feed()) feed.push(JSON.stringify(entry))
          await left.world.close()
          return feed
        }
        expect(await bytes()).toEqual(await bytes())
      }),
      { numRuns: 25 },
    )
  }, 120_000)
})
