import { canonical } from '../protocol/json.ts'
import type { Plan } from '../protocol/types.ts'
import type { Binding, Change } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import type { BindingSpec, Resolver } from './bind.ts'

/** A plan that lies in the graph as a draft and has no run: posted, imported, forked, or half submitted when a process died. */
export interface Draft {
  /** Steps for which a flow says nothing are executed as the draft says. */
  resolving(resolve: Resolver | undefined): Resolver
  /** What is left to be done of a submission: what is there is not added again, and a binding that says otherwise goes. */
  left(changes: readonly Change[]): readonly Change[]
}

export async function draftIn(graph: ProjectGraph, plan: string): Promise<Draft | undefined> {
  const there = await graph.find('plan', plan)
  if (there?.data.status !== 'draft' || graph.state.plan(plan)?.activeRun !== undefined) return undefined
  const bound = new Map<string, Binding>()
  for (const { data } of ofKind(graph.state.nodesOf(plan), 'binding')) bound.set(data.step_id, data)
  const replaced = ({ binding_id, step_id }: Binding): readonly Change[] => {
    const before = bound.get(step_id)
    if (!before || before.binding_id === binding_id) return []
    return [{ kind: 'node_delete', node: 'binding', id: before.binding_id }]
  }
  return {
    resolving: (resolve) => (step) => specOf(bound.get(step.step_id)) ?? resolve?.(step),
    left: (changes) =>
      changes.flatMap((change) => {
        if (change.kind !== 'node_add') return [change]
        if (graph.get(change.node, change.id)) return []
        return change.node === 'binding' ? [...replaced(change.data), change] : [change]
      }),
  }
}

/** The same for a plan that is there just as it is given. */
export async function unchangedDraft(graph: ProjectGraph, plan: Plan): Promise<Draft | undefined> {
  const draft = await draftIn(graph, plan.plan_id)
  if (!draft) return undefined
  return canonical(await graph.document('plan', plan.plan_id)) === canonical(plan) ? draft : undefined
}

function specOf(binding: Binding | undefined): BindingSpec | undefined {
  if (!binding) return undefined
  const { binding_id: _, step_id: __, ...spec } = binding
  return spec
}
