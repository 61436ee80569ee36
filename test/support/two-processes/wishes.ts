import type { Runtime } from '../../../src/orchestrator/runtime.ts'
import type { Flow } from '../../../src/orchestrator/submit.ts'
import { MplpError } from '../../../src/protocol/errors.ts'
import type { Life } from './life.ts'
import { needed } from './needed.ts'
import type { Wish } from './temper.ts'
import { note, type World } from './world.ts'

interface WishSpec {
  make(runtime: Runtime, world: World): Promise<unknown>
  /** Codes of errors that tell the asker no more than that it comes at the wrong time. */
  readonly refusals: readonly string[]
}

const decideAll = async (runtime: Runtime, status: 'approved' | 'rejected') => {
  for (const { confirm } of await runtime.waiting())
    await runtime.decide(confirm.confirm_id, { status, decided_by_role: 'person' })
}

/** What each wish asks of a runtime, at any time and of either process. */
const WISHES: { readonly [W in Wish]: WishSpec } = {
  decide: { make: (runtime) => decideAll(runtime, 'approved'), refusals: ['rule_violation'] },
  reject: { make: (runtime) => decideAll(runtime, 'rejected'), refusals: ['rule_violation'] },
  propose: {
    make: (runtime, world) => runtime.propose(world.plan),
    refusals: ['rule_violation'],
  },
  pause: { make: (runtime, world) => runtime.pause(world.plan), refusals: ['invalid_input'] },
  resume: { make: (runtime, world) => runtime.resume(world.plan), refusals: ['invalid_input'] },
  signal: { make: (runtime, world) => runtime.signal(world.plan, 'go'), refusals: ['invalid_input'] },
  cancel: {
    async make(runtime, world) {
      await runtime.cancel(world.plan)
      world.cancelHeard ??= (await world.store.head(world.context)).revision
    },
    refusals: [],
  },
  suspend: {
    make: (runtime, { context: context_id }) => runtime.call('context', { intent: 'suspend', context_id }),
    refusals: ['rule_violation'],
  },
  activate: {
    make: (runtime, { context: context_id }) => runtime.call('context', { intent: 'activate', context_id }),
    refusals: ['rule_violation'],
  },
}

/** Has a life submit what is not there yet, or wish for something. */
export async function ask(world: World, lives: readonly Life[], life: Life): Promise<void> {
  const { runtime, port } = life
  if (!runtime || life.busy || life.closing !== undefined || port.dead || port.frozen) return
  const flow = await missingFlow(world)
  const what = flow === world.flows.main ? undefined : world.isCalm() ? await helpful(world) : drawn(world)
  const isBegun = lives.some(({ submits, port }) => !port.dead && submits === flow?.plan.plan_id)
  if (what) wish(world, life, runtime, what)
  else if (flow && !isBegun && life.lacks.length === 0) submit(world, life, runtime, flow)
}

async function missingFlow({ store, flows: { main, beside } }: World): Promise<Flow | undefined> {
  const keyOf = ({ plan }: Flow) => `id/plan/${plan.plan_id}`
  const there = await store.getMany([keyOf(main), keyOf(beside)])
  return [main, beside].find((flow) => !there.has(keyOf(flow)))
}

function submit(world: World, life: Life, runtime: Runtime, flow: Flow): void {
  life.submits = flow.plan.plan_id
  const refusals = flow === world.flows.beside ? ['invalid_input', 'rule_violation'] : [] // its context is suspended
  attempt(world, life, 'submit', () => runtime.submit(flow), refusals)
}

function wish(world: World, life: Life, runtime: Runtime, what: Wish): void {
  world.wished.add(what)
  const { make, refusals } = WISHES[what]
  attempt(world, life, what, () => make(runtime, world), refusals)
}

const helpful = async (world: World): Promise<Wish | undefined> =>
  world.round % world.temper.helpedEvery === 0 ? needed(world) : undefined

function drawn({ luck, temper: { wishes, weights } }: World): Wish | undefined {
  if (luck.random() >= wishes) return undefined
  const all = [...weights]
  let left = luck.random() * all.reduce((sum, [, weight]) => sum + weight, 0)
  return all.find(([, weight]) => {
    left -= weight
    return left < 0
  })?.[0]
}

/** An answer that is neither what was asked for nor a refusal that fits is a fault. */
function attempt(
  world: World,
  life: Life,
  what: string,
  act: () => Promise<unknown>,
  refusals: readonly string[],
): void {
  note(world, life, what)
  life.busy = true
  act()
    .then(
      () => note(world, life, `${what}: done`),
      (error) => {
        if (life.port.dead) return
        note(world, life, `${what}: ${error instanceof MplpError ? error.code : error}`)
        if (!isFitting(error, life, refusals))
          world.faults.push(`${what}: ${error instanceof MplpError ? error : error?.stack}`)
      },
    )
    .finally(() => {
      life.busy = false
      life.submits = undefined
    })
}

const isFitting = (error: unknown, { closing }: Life, refusals: readonly string[]): boolean =>
  error instanceof MplpError &&
  (refusals.includes(error.code) || // it came at the wrong time
    error.code === 'revision_conflict' || // others wrote five times meanwhile
    (error.code === 'closed' && closing !== undefined)) // it began to close while it was asked
