import type { Clock } from '../../protocol/clock.ts'
import { isObject, type JsonObject } from '../../protocol/json.ts'
import type { Change } from '../../psg/change.ts'
import type { ProjectGraph } from '../../psg/graph.ts'
import { endPlan } from '../../psg/moves.ts'
import { addingTo, creating, making } from './intents.ts'
import { graphOf, type Intent, type Maker, type Module, onlyFields, textOf } from './module.ts'

const draft = making('plan', () => ({ status: 'draft' }))

/** A step needs a description and nothing else; it may name what it waits for by its place in the list. */
const make: Maker = (given, ground) =>
  draft({ ...given, ...(Array.isArray(given.steps) && { steps: completed(given.steps, ground.clock) }) }, ground)

/** What is to be done, while it is a draft. Putting it up for approval and running it is the runtime's: `propose`, `submit`. */
export const planModule: Module = {
  make,
  intents: {
    create: creating('plan', make),
    add_step: addingTo('plan', 'step', (step, { clock }) => completed([step], clock)[0]!),
    remove_step: onPlan(['step_id'], ({ step_id }) => [{ kind: 'node_delete', node: 'step', id: step_id! }]),
    add_dependency: onPlan(['from', 'to'], ({ from, to }) => [{ kind: 'edge_add', from: from!, to: to! }]),
    remove_dependency: onPlan(['from', 'to'], ({ from, to }) => [{ kind: 'edge_delete', from: from!, to: to! }]),
    cancel: onPlan([], ({ plan_id }, graph) => endPlan(graph, plan_id!, 'cancelled')),
  },
}

/** A change of a plan that is told by ids alone. */
function onPlan(
  fields: readonly string[],
  changes: (ids: { readonly [field: string]: string }, graph: ProjectGraph) => readonly Change[],
): Intent {
  return async (input, ground) => {
    const names = ['plan_id', ...fields]
    onlyFields(input, names)
    const ids = Object.fromEntries(names.map((field) => [field, textOf(input, field)]))
    const id = ids.plan_id!
    const graph = await graphOf('plan', id, ground)
    return { graph, changes: () => changes(ids, graph), reason: `plan ${id} is changed`, about: { kind: 'plan', id } }
  }
}

function completed(steps: readonly unknown[], clock: Pick<Clock, 'uuid'>): readonly JsonObject[] {
  const whole = steps.map(
    (step) => ({ step_id: clock.uuid(), status: 'pending', ...(isObject(step) && step) }) as JsonObject,
  )
  return whole.map((step) => {
    if (!Array.isArray(step.dependencies)) return step
    const named = step.dependencies.map((on) => (typeof on === 'number' ? (whole[on]?.step_id ?? on) : on))
    return { ...step, dependencies: named }
  })
}
