import type { FlowContract, FlowOptions, ModuleHandlers, RuntimeContext } from '../../src/orchestrator/flow.ts'
import { type Clock, type ManualClock, systemClock } from '../../src/protocol/clock.ts'
import type { Collab, CollabMode, Confirm, Context, Decision, Plan, Role } from '../../src/protocol/types.ts'
import type { Backend } from '../../src/vsl/backend.ts'

const META = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const

export const contextDocument = (clock: Clock = systemClock, more: Partial<Context> = {}): Context => ({
  meta: META,
  context_id: clock.uuid(),
  root: { domain: 'test', environment: 'ci' },
  title: 'A test',
  status: 'active',
  ...more,
})

/** A plan of the steps named, each with its role if it has one; `after` says what waits for what. */
export function planDocument(
  context: Context,
  steps: { readonly [name: string]: { readonly role?: string; readonly after?: readonly string[] } },
  clock: Clock = systemClock,
): Plan & { readonly ids: { readonly [name: string]: string } } {
  const ids = Object.fromEntries(Object.keys(steps).map((name) => [name, clock.uuid()]))
  const plan: Plan = {
    meta: META,
    plan_id: clock.uuid(),
    context_id: context.context_id,
    title: 'A plan',
    objective: 'To be run',
    status: 'draft',
    steps: Object.entries(steps).map(([name, { role, after }], order_index) => ({
      step_id: ids[name]!,
      description: name,
      status: 'pending',
      order_index,
      ...(role !== undefined && { agent_role: role }),
      ...(after && { dependencies: after.map((other) => ids[other]!) }),
    })),
  }
  return Object.defineProperty(plan, 'ids', { value: ids }) as Plan & { readonly ids: typeof ids } // a plan has no such field
}

export const confirmDocument = (
  plan: Plan,
  decisions: readonly Partial<Decision>[],
  clock: Clock = systemClock,
): Confirm => ({
  meta: META,
  confirm_id: clock.uuid(),
  target_type: 'plan',
  target_id: plan.plan_id,
  status: 'pending',
  requested_by_role: 'planner',
  requested_at: new Date(clock.now()).toISOString(),
  decisions: decisions.map((decision) => ({
    decision_id: clock.uuid(),
    status: 'approved',
    decided_by_role: 'lead',
    decided_at: new Date(clock.now()).toISOString(),
    ...decision,
  })),
})

export const roleDocument = (name: string, clock: Clock = systemClock): Role => ({
  meta: META,
  role_id: clock.uuid(),
  name,
})

export const newContext = (
  runId: string,
): Omit<RuntimeContext, 'events'> & { events: { event_type: string; [field: string]: unknown }[] } => ({
  ids: { runId },
  coordination: { ids: { runId }, metadata: {} },
  events: [],
})

/** Handlers that give these documents, each under its module's name. */
export const saying = (documents: { readonly [module: string]: unknown }): ModuleHandlers =>
  Object.fromEntries(
    Object.entries(documents).map(([module, document]) => [module, () => ({ output: { [module]: document } })]),
  )

/** A call whose parts can be replaced. */
export const call = <Flow extends FlowContract>(
  vsl: FlowOptions['vsl'],
  modules: ModuleHandlers,
  more: Partial<FlowOptions<Flow>> = {},
): Omit<FlowOptions<Flow>, 'runtimeContext'> & { readonly runtimeContext: ReturnType<typeof newContext> } =>
  ({ runtimeContext: newContext('run-1'), vsl, modules, ...more }) as never

/** Lets time pass until the work is done. */
export async function passing<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  let over = false
  const done = work.finally(() => {
    over = true
  })
  done.catch(() => undefined) // the caller hears of it
  while (!over) await clock.advance(1_000)
  return done
}

/** A store as a process sees it that dies before its nth call, or its nth call of one kind: from then on nothing is done or answered any more. */
export function dyingStore(
  store: Backend,
  before: number,
  counted?: keyof Backend,
): { readonly store: Backend; readonly died: Promise<void>; readonly calls: () => number } {
  let calls = 0
  let die: () => void = () => undefined
  const died = new Promise<void>((resolve) => {
    die = resolve
  })
  const dead = (name: string | symbol) => {
    if (counted === undefined || name === counted) calls++
    if (calls >= before) die()
    return calls >= before
  }
  const silence = new Promise<never>(() => undefined)
  const mine = new Proxy(store, {
    get: (target, name) => {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name === 'scan' || name === 'read' || name === 'feed' || name === 'blobs')
        return async function* (...args: unknown[]) {
          if (dead(name)) await silence
          for await (const item of value.apply(target, args)) {
            if (calls >= before) await silence
            yield item
          }
        }
      return (...args: unknown[]) => (dead(name) ? silence : value.apply(target, args))
    },
  })
  return { store: mine, died, calls: () => calls }
}

/** `ann:planner` takes part as ann in the role planner. */
export const collabDocument = (
  context: Context,
  mode: CollabMode,
  participants: readonly string[],
  clock: Clock = systemClock,
): Collab => ({
  meta: META,
  collab_id: clock.uuid(),
  context_id: context.context_id,
  title: 'A session',
  purpose: 'to work together',
  mode,
  status: 'draft',
  participants: participants.map((text) => {
    const [participant_id, role_id] = text.split(':') as [string, string]
    return { participant_id, role_id, kind: 'agent' }
  }),
  created_at: new Date(clock.now()).toISOString(),
})
