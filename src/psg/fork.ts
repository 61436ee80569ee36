import { NotFound } from '../protocol/errors.ts'
import type { Binding, Change, CommitOptions, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { insist } from './insist.ts'
import { isKind } from './node.ts'
import type { GraphState } from './state.ts'
import { children } from './view.ts'

/** A copy of a plan as a new draft: new ids, pending steps, the same bindings. Where a failed or completed plan can begin anew. Throws NotFound. */
export async function forkPlan(graph: ProjectGraph, planId: string, options: CommitOptions): Promise<Node<'plan'>> {
  const plan_id = graph.clock.uuid()
  await insist(graph, () => copyOf(graph.state, planId, plan_id, graph.clock.uuid), {
    ...options,
    reads: [['plan', planId]],
  })
  return graph.get('plan', plan_id)!
}

function copyOf(state: GraphState, planId: string, plan_id: string, uuid: () => string): readonly Change[] {
  const plan = state.get('plan', planId)
  if (!plan) throw new NotFound('plan', planId)
  const steps = children(state, 'plan', planId).filter((node) => isKind(node, 'step'))
  const ids = new Map(steps.map((step) => [step.id, uuid()]))
  const { trace: _, events: __, ...head } = plan.data
  const changes: Change[] = [
    { kind: 'node_add', node: 'plan', id: plan_id, data: { ...head, plan_id, status: 'draft' } },
  ]
  for (const [at, step] of steps.entries()) {
    const step_id = ids.get(step.id)!
    const dependencies = step.data.dependencies?.map((id) => ids.get(id)!)
    const data = { ...step.data, step_id, status: 'pending' as const, ...(dependencies && { dependencies }) }
    changes.push({ kind: 'node_add', node: 'step', id: step_id, owner: plan_id, at, data })
    for (const { data: bound } of bindingsOf(state, step.id)) {
      const binding_id = uuid()
      const data = { ...withIds(bound, ids), binding_id, step_id }
      changes.push({ kind: 'node_add', node: 'binding', id: binding_id, data })
    }
  }
  return changes
}

const bindingsOf = (state: GraphState, step: string): readonly Node<'binding'>[] =>
  [...state.referrers('step', step, 'BINDS')].filter((node) => isKind(node, 'binding'))

/** References to steps' outputs name their ids, in what takes a step back too: the copy must name the copies. */
function withIds(bound: Binding, ids: ReadonlyMap<string, string>): Binding {
  return JSON.parse(JSON.stringify(bound), (key, value) =>
    key === '$from' && typeof value === 'string' ? (ids.get(value) ?? value) : value,
  )
}
