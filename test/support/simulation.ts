import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError } from '../../src/protocol/errors.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import { isFieldChange } from '../../src/psg/field-change.ts'
import { placeOf } from '../../src/psg/node.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from './flows.ts'
import { goOn, type Port, ported, portOf, settle } from './port.ts'

/** Where a crash strikes: at the nth call of a port, before it has any effect or after it had but before anybody hears of it. */
export interface Crash {
  readonly call: number
  readonly when: 'before' | 'after'
}

export interface Simulated {
  /** Calls of ports in all, over all lives. */
  readonly calls: number
  /** What is wrong; empty when everything held. */
  readonly faults: readonly string[]
}

/** Longer than any of these flows can take: a run that is not over by then hangs. */
const MOST_ROUNDS = 5_000
const STEPS = ['fetch', 'flaky', 'approve', 'left', 'right'] as const

/**
 * Runs one flow of five steps, with a retry and an approval, on a store, a clock and adapters whose answers come in an order that the seed
 * chooses, with crashes that drop every object and open the store again. Says what did not hold at the end.
 */
export async function simulate(seed: number, crashes: readonly Crash[] = []): Promise<Simulated> {
  const clock = manualClock({ seed })
  const luck = manualClock({ seed: seed + 7_919 })
  const store = memoryBackend({ clock })
  const flow = flowOf(
    {
      fetch: { call: 'work' },
      flaky: { after: ['fetch'], binding: { retry: { strategy: 'fixed', max_attempts: 5, delay_ms: 400 } } },
      approve: { call: 'work', after: ['fetch'], binding: { approval: 'ask' } },
      left: { call: 'work', after: ['flaky', 'approve'] },
      right: { call: 'work', after: ['approve'] },
    },
    {},
    clock,
  )
  const world: World = {
    clock,
    luck,
    store,
    calls: 0,
    crashes: [...crashes],
    ended: new Set(),
    repeated: [],
    flakes: 0,
    faults: [],
  }
  const { plan_id, context_id } = flow.plan

  let life = await begin(world)
  let submitted = false
  for (let round = 0; ; round++) {
    if (round > MOST_ROUNDS) {
      world.faults.push('the run neither ended nor said what it waits for')
      break
    }
    if (life.port.dead) life = await begin(world)
    if (!submitted && life.runtime) {
      submitted = await isThere(store, plan_id)
      if (!submitted && !life.submitting) {
        life.submitting = true
        life.runtime.submit(flow).catch((error) => life.port.dead || world.faults.push(`submit: ${error}`))
      }
    }
    await answer(life, store)
    if (await hasEnded(store, context_id, plan_id, world)) break
    await step(world, life)
  }
  life.port.die()
  await judge(world, context_id, plan_id)
  return { calls: world.calls, faults: world.faults }
}

/** One to three crashes somewhere in a life of about `calls` calls. */
export function crashesOf(seed: number, calls: number): readonly Crash[] {
  const luck = manualClock({ seed: seed * 31 + 1 })
  const count = 1 + Math.floor(luck.random() * 3)
  return Array.from({ length: count }, () => ({
    call: 1 + Math.floor(luck.random() * calls * 1.5),
    when: luck.random() < 0.5 ? ('before' as const) : ('after' as const),
  }))
}

interface World {
  readonly clock: ManualClock
  readonly luck: ManualClock
  readonly store: Backend
  calls: number
  readonly crashes: Crash[]
  readonly ended: Set<string>
  readonly repeated: string[]
  flakes: number
  readonly faults: string[]
}

interface Life {
  readonly port: Port
  runtime: Runtime | undefined
  submitting: boolean
  answering: boolean
}

async function begin(world: World): Promise<Life> {
  const life: Life = {
    port: portOf((when) => struck(world, when)),
    runtime: undefined,
    submitting: false,
    answering: false,
  }
  const store = ported(world.store, life.port)
  const layer = actionLayer({
    clock: world.clock,
    adapters: [
      functionAdapter({
        work: (_, call) => life.port.pass(() => done(world, call.idempotency_key)),
        flaky: (_, call) =>
          life.port.pass(() => {
            if (world.flakes++ < 2) throw new ActionError('action_failed', 'not yet', { retryable: true })
            return done(world, call.idempotency_key)
          }),
      }),
    ],
  })
  createRuntime({
    store,
    layer,
    clock: world.clock,
    onError: (error) => life.port.dead || world.faults.push(`nobody was told: ${error}`),
  }).then(
    (runtime) => {
      life.runtime = runtime
    },
    (error) => life.port.dead || world.faults.push(`createRuntime: ${error}`),
  )
  return life
}

function done(world: World, key: string): string {
  if (world.ended.has(key)) world.repeated.push(key)
  return key
}

/** Kills at the calls that are listed, each once. */
function struck(world: World, when: Crash['when']): boolean {
  if (when === 'before') world.calls++
  const at = world.crashes.findIndex((crash) => crash.call === world.calls && crash.when === when)
  if (at >= 0) world.crashes.splice(at, 1)
  return at >= 0
}

/** Lets one waiting call go on, or time pass when none waits. */
async function step({ clock, luck }: World, { port }: Life): Promise<void> {
  await settle()
  if (!goOn([port], luck.random)) await clock.advance(Math.max(1, (clock.nextWake ?? clock.now() + 100) - clock.now()))
  await settle()
}

/** The person: approves whatever is asked. */
async function answer(life: Life, store: Backend): Promise<void> {
  const { runtime } = life
  if (!runtime || life.answering || life.port.dead || !(await somethingWaits(store))) return
  life.answering = true
  runtime
    .waiting()
    .then(async (questions) => {
      for (const { confirm } of questions)
        await runtime
          .decide(confirm.confirm_id, { status: 'approved', decided_by_role: 'person' })
          .catch(() => undefined) // decided by an earlier life
    })
    .finally(() => {
      life.answering = false
    })
}

const somethingWaits = async (store: Backend) => {
  for await (const _ of store.scan('waiting/', { limit: 1 })) return true
  return false
}

const isThere = async (store: Backend, plan: string) => (await store.getMany([`id/plan/${plan}`])).size > 0

async function hasEnded(store: Backend, context: string, plan: string, world: World): Promise<boolean> {
  let status = 'draft'
  for await (const { body } of store.read(context))
    for (const change of (body as unknown as EntryBody).changes) {
      const { kind, id } = placeOf(change.key)
      const now = (isFieldChange(change) ? change.now : change.after!.data).status
      if (kind === 'plan' && typeof now === 'string') status = now
      if (kind === 'step' && now === 'completed') world.ended.add(`${plan}:${id}`)
    }
  return ['completed', 'failed', 'cancelled'].includes(status)
}

async function judge(world: World, context: string, plan: string): Promise<void> {
  const { openProject } = await import('../../src/psg/project.ts')
  const project = await openProject(world.store, { clock: world.clock })
  const graph = await project.context(context)
  for (const { message } of await graph.verify()) world.faults.push(message)
  const document = await graph.document('plan', plan)
  if (document.status !== 'completed') world.faults.push(`the plan ended ${document.status}`)
  for (const [i, step] of document.steps.entries())
    if (step.status !== 'completed') world.faults.push(`${STEPS[i]} is ${step.status}`)
  for (const key of world.repeated) world.faults.push(`${key} ran again after its end was committed`)
}
