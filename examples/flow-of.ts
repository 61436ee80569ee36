import type { BindingSpec } from '../src/orchestrator/bind.ts'
import type { Flow } from '../src/orchestrator/submit.ts'
import { systemClock } from '../src/protocol/clock.ts'

const META = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const

/** A step as an example tells it: how it is executed, and the steps that it waits for. */
export type NamedStep = BindingSpec & { readonly after?: readonly string[] }

/** A flow in a context of its own, whose steps are known by name; `{ $from: name }` in params takes what that step gave. */
export function flowOf(title: string, steps: { readonly [name: string]: NamedStep }): Flow {
  const { uuid } = systemClock
  const context_id = uuid()
  const ids: { [name: string]: string } = Object.fromEntries(Object.keys(steps).map((name) => [name, uuid()]))
  const named = JSON.parse(JSON.stringify(steps), (key, value) =>
    key === '$from' ? ids[value] : value,
  ) as typeof steps
  return {
    context: { meta: META, context_id, root: { domain: 'example', environment: 'local' }, title, status: 'active' },
    plan: {
      meta: META,
      plan_id: uuid(),
      context_id,
      title,
      objective: title,
      status: 'draft',
      steps: Object.entries(named).map(([name, { after }]) => ({
        step_id: ids[name]!,
        description: name,
        status: 'pending',
        ...(after && { dependencies: after.map((other) => ids[other]!) }),
      })),
    },
    bindings: {
      steps: Object.fromEntries(Object.entries(named).map(([name, { after: _, ...binding }]) => [ids[name]!, binding])),
    },
  }
}
