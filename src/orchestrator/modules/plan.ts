import type { Clock } from '../../protocol/clock.ts'
import { InvalidInput } from '../../protocol/errors.ts'
import { isObject, type JsonObject } from '../../protocol/json.ts'
import type { Change } from '../../psg/change.ts'
import type { ProjectGraph } from '../../psg/graph.ts'
import { endPlan, removeStep } from '../../psg/moves.ts'
import { addingTo, altering, creating, making } from './intents.ts'
import { type Intent, type Maker, type Module, partOf } from './module.ts'

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
    remove_step: onSteps(['step_id'], ([id], graph) => removeStep(graph, id!)),
    add_dependency: onSteps(['from', 'to'], ([from, to]) => [{ kind: 'edge_add', from: from!, to: to! }]),
    remove_dependency: onSteps(['from', 'to'], ([from, to]) => [{ kind: 'edge_delete', from: from!, to: to! }]),
    cancel: onSteps([], (_, graph, plan) => {
      refuseIfUnderWay(graph, plan)
      return endPlan(graph, plan, 'cancelled')
    }),
  },
}

/** A change of a plan that is told by its id and those of its steps. */
function onSteps(
  fields: readonly string[],
  changes: (steps: readonly string[], graph: ProjectGraph, plan: string) => readonly Change[],
): Intent {
  return altering('plan', fields, (id, input, graph) => {
    const steps = fields.map((field) => partOf(graph, input, field, { kind: 'step', owner: id }))
    return { changes: () => changes(steps, graph, id), reason: `plan ${id} is changed` }
  })
}

function refuseIfUnderWay(graph: ProjectGraph, plan: string): void {
  const run = graph.state.plan(plan)?.activeRun
  if (run === undefined || graph.get('plan', plan)?.data.status !== 'in_progress') return
  const message = `is under way: cancel its run ${run} instead, through the runtime`
  throw new InvalidInput('module input', [{ path: 'plan_id', rule: 'owner.fence', message, found: plan }])
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
