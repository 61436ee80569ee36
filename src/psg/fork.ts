import { NotFound } from '../protocol/errors.ts'
import type { Plan } from '../protocol/types.ts'
import type { Binding, Change, CommitOptions, Node } from './change.ts'
import { partsOf } from './document.ts'
import type { ProjectGraph } from './graph.ts'
import { insist } from './insist.ts'
import { ofKind } from './node.ts'
import type { GraphState } from './state.ts'
import { children } from './view.ts'

/** A copy of a plan as a new draft: new ids, pending steps, the same bindings. Where a failed or completed plan can begin anew. Throws NotFound. */
export async function forkPlan(graph: ProjectGraph, planId: string, options: CommitOptions): Promise<Node<'plan'>> {
  const plan_id = graph.clock.uuid()
  const changes = (): readonly Change[] => {
    const { plan, bindings } = copyOf(graph.state, planId, plan_id, graph.clock.uuid)
    const bound = bindings.map((data): Change => ({ kind: 'node_add', node: 'binding', id: data.binding_id, data }))
    return [...partsOf('plan', plan), ...bound]
  }
  await insist(graph, changes, { ...options, reads: [['plan', planId]] })
  return graph.get('plan', plan_id)!
}

/** A plan that nobody has put into the graph yet, and how its steps are executed. */
export interface PlanCopy {
  readonly plan: Plan
  readonly bindings: readonly Binding[]
  /** What the steps are called in it, by what they are called in the first. */
  readonly steps: ReadonlyMap<string, string>
}

/** The ids of the copy are asked for by those of the first. Its plan must be loaded. Throws NotFound. */
export function copyOf(state: GraphState, planId: string, plan_id: string, idOf: (id: string) => string): PlanCopy {
  const first = state.get('plan', planId)
  if (!first) throw new NotFound('plan', planId)
  const nodes = [...ofKind(children(state, 'plan', planId), 'step')]
  const steps = new Map(nodes.map(({ id }) => [id, idOf(id)]))
  const { trace: _, events: __, ...head } = first.data
  const copied = nodes.map(({ id, data }) => {
    const dependencies = data.dependencies?.map((on) => steps.get(on)!)
    return { ...data, step_id: steps.get(id)!, status: 'pending' as const, ...(dependencies && { dependencies }) }
  })
  const bindings = nodes.flatMap(({ id }) =>
    bindingsOf(state, id).map(({ data }) => {
      return { ...withIds(data, steps), binding_id: idOf(data.binding_id), step_id: steps.get(id)! }
    }),
  )
  return { plan: { ...head, plan_id, status: 'draft', steps: copied } as Plan, bindings, steps }
}

const bindingsOf = (state: GraphState, step: string): readonly Node<'binding'>[] => [
  ...ofKind(state.referrers('step', step, 'BINDS'), 'binding'),
]

/** References to steps' outputs name their ids, in what takes a step back too: the copy must name the copies. */
export function withIds<T extends object>(bound: T, ids: ReadonlyMap<string, string>): T {
  return JSON.parse(JSON.stringify(bound), (key, value) =>
    key === '$from' && typeof value === 'string' ? (ids.get(value) ?? value) : value,
  )
}
