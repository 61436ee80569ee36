import { append } from '../protocol/append.ts'
import type { AnyNode, Kind, Node } from './change.ts'
import { type Delta, isStructural } from './delta.ts'
import { type Ordered, rankEdge, rankNew, type Steps } from './order.ts'
import { byOrderIndex } from './plan-facts.ts'
import type { GraphState } from './state.ts'

/** Where each new or re-ordered step would stand, and the cycles that forbid it. */
export interface StepOrder {
  readonly ranks: ReadonlyMap<string, number>
  /** By the step that tells of it: the first of the commit that lies on it. */
  readonly cycles: ReadonlyMap<string, readonly string[]>
}

/** A plan's steps as they are, and as they would be. */
interface Proposed {
  readonly state: GraphState
  deltasOf(kind: Kind): readonly Delta[]
  after(kind: Kind, id: string): AnyNode | undefined
}

/** Ranks for the steps that are new and for those that new dependencies turn round, plan by plan. */
export function orderOf(proposed: Proposed): StepOrder {
  const ranks = new Map<string, number>()
  const cycles = new Map<string, readonly string[]>()
  const plans = new Map<string, Delta[]>()
  for (const delta of proposed.deltasOf('step'))
    if (delta.after && isStructural(delta)) append(plans, delta.after.owner ?? '', delta)
  for (const structural of plans.values()) {
    const take = (ordered: Ordered): boolean => {
      if (ordered.cycle) cycles.set(tellerOf(ordered.cycle, structural), ordered.cycle)
      else for (const [step, rank] of ordered.ranks) ranks.set(step, rank)
      return ordered.cycle === undefined
    }
    orderPlan(structural, take, ranks, proposed)
  }
  return { ranks, cycles }
}

function orderPlan(
  structural: readonly Delta[],
  take: (ordered: Ordered) => boolean,
  ranks: ReadonlyMap<string, number>,
  proposed: Proposed,
): void {
  const added = structural.filter((delta) => !delta.before).map((delta) => delta.after as Node<'step'>)
  const changed = structural.flatMap(({ before, after: now }) => (before ? newDependencies(before, now!) : []))
  if (added.length === 0 && changed.length === 0) return

  const { state } = proposed
  const order = state.plan(structural[0]!.after!.owner!)?.order
  const step = (id: string) => proposed.after('step', id) as Node<'step'> | undefined
  const newDependants = new Map<string, string[]>()
  const steps: Steps = {
    dependenciesOf(id) {
      const dependencies: unknown = step(id)?.data.dependencies
      return Array.isArray(dependencies) ? dependencies : [] // a step without a shape may be among those waited for
    },
    *dependantsOf(id) {
      for (const dependant of state.dependantsOf(id))
        if (step(dependant)?.data.dependencies?.includes(id)) yield dependant
      yield* newDependants.get(id) ?? []
    },
    rankOf: (id) => ranks.get(id) ?? order?.ranks.get(id),
  }
  const inOrder = added.sort(byOrderIndex).map((node) => node.id)
  if (!take(rankNew(inOrder, steps.dependenciesOf, order?.top ?? 0)) || changed.length === 0) return
  for (const node of added)
    for (const dependency of node.data.dependencies ?? []) append(newDependants, dependency, node.id)
  for (const [from, to] of changed) {
    take(rankEdge(from, to, steps))
    append(newDependants, to, from)
  }
}

function newDependencies(before: AnyNode, now: AnyNode): (readonly [from: string, to: string])[] {
  const was = (before as Node<'step'>).data.dependencies
  const is = (now as Node<'step'>).data.dependencies
  if (was === is || !is) return []
  const known = new Set(was)
  return is.filter((id) => !known.has(id)).map((id) => [now.id, id])
}

function tellerOf(cycle: readonly string[], structural: readonly Delta[]): string {
  const on = new Set(cycle)
  return structural.find((delta) => on.has(delta.id))!.id
}
