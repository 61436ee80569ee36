import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import { createRuntime, type Runtime, type RuntimeOptions } from '../../src/orchestrator/runtime.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { type Clock, systemClock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

const META = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const

/** Steps by name: what each waits for, and the function it calls unless the binding says otherwise. */
export interface StepSpec {
  readonly after?: readonly string[]
  readonly call?: string
  readonly binding?: Partial<BindingSpec>
}

/** A flow whose steps are known by name. */
export function flowOf(
  steps: { readonly [name: string]: StepSpec },
  more: Partial<Omit<Flow, 'plan' | 'context'>> = {},
  clock: Clock = systemClock,
): Flow & { readonly ids: { readonly [name: string]: string } } {
  const context_id = clock.uuid()
  const ids = Object.fromEntries(Object.keys(steps).map((name) => [name, clock.uuid()]))
  const bound = Object.entries(steps).map(([name, { call, binding }]) => [
    ids[name]!,
    { action_type: 'function', params: { name: call ?? name }, ...binding },
  ])
  const flow: Flow = {
    context: { meta: META, context_id, root: { domain: 'test', environment: 'ci' }, title: 'A test', status: 'active' },
    plan: {
      meta: META,
      plan_id: clock.uuid(),
      context_id,
      title: 'A plan',
      objective: 'To be run',
      status: 'draft',
      steps: Object.entries(steps).map(([name, { after }]) => ({
        step_id: ids[name]!,
        description: name,
        status: 'pending' as const,
        ...(after && { dependencies: after.map((other) => ids[other]!) }),
      })),
    },
    bindings: { steps: Object.fromEntries(bound) },
    ...more,
  }
  return Object.defineProperty(flow, 'ids', { value: ids }) as Flow & { readonly ids: typeof ids } // a flow has no such field
}

/** A chain of `length` steps that all call `noop`. */
export const chainOf = (length: number, more?: Partial<Omit<Flow, 'plan' | 'context'>>) =>
  flowOf(
    Object.fromEntries(
      Array.from({ length }, (_, i) => [`s${i}`, { call: 'noop', ...(i > 0 && { after: [`s${i - 1}`] }) }]),
    ),
    more,
  )

/** A runtime on functions. What it could not tell anybody fails the test that asks `errors`. */
export async function runtimeOf(
  functions: { readonly [name: string]: FunctionSpec },
  options: Partial<RuntimeOptions> & { store?: Backend } = {},
): Promise<Runtime & { readonly errors: unknown[]; readonly store: Backend }> {
  const errors: unknown[] = []
  const store = options.store ?? memoryBackend()
  const layer = actionLayer({
    adapters: [functionAdapter({ noop: () => null, ...functions })],
    ...(options.clock && { clock: options.clock }),
  })
  const runtime = await createRuntime({ layer, onError: (error) => errors.push(error), ...options, store })
  return { ...runtime, errors, store }
}

/** A process that has these functions, and no others. */
export const having = (functions: { readonly [name: string]: FunctionSpec } = {}, ...more: readonly Adapter[]) => ({
  layer: actionLayer({ adapters: [functionAdapter({ noop: () => null, ...functions }), ...more] }),
})
