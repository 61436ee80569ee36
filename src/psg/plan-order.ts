import type { AnyNode, Kind, Node } from './change.ts'
import { type Ordered, rankEdge, rankNew, type Steps } from './order.ts'
import type { Delta, GraphState } from './state.ts'

/** Where each new or re-ordered step would stand, and the cycles that forbid it. */
export interface PlanOrder {
  readonly ranks: ReadonlyMap<string, number>
  readonly cycles: readonly (readonly string[])[]
}

/** Ranks for what is new and for what new dependencies turn round, plan by plan. */
export function orderOf(
  touched: ReadonlyMap<string, readonly Delta[]>,
  after: (kind: Kind, id: string) => AnyNode | undefined,
  state: GraphState,
): PlanOrder {
  const ranks = new Map<string, number>()
  const cycles: (readonly string[])[] = []
  const take = (ordered: Ordered) => {
    if (ordered.cycle) cycles.push(ordered.cycle)
    else for (const [step, rank] of ordered.ranks) ranks.set(step, rank)
  }
  const step = (id: string) => after('step', id) as Node<'step'> | undefined

  for (const [plan, deltas] of touched) {
    const structural = deltas.filter((delta) => !delta.statusOnly && delta.after)
    if (structural.length === 0) continue
    const facts = state.plan(plan)
    const newDependants = new Map<string, string[]>()
    const steps: Steps = {
      dependenciesOf: (id) => step(id)?.data.dependencies ?? [],
      *dependantsOf(id) {
        for (const dependant of state.dependantsOf(id))
          if (step(dependant)?.data.dependencies?.includes(id)) yield dependant
        yield* newDependants.get(id) ?? []
      },
      rankOf: (id) => ranks.get(id) ?? facts?.ranks.get(id),
    }
    const added = structural.filter((delta) => !delta.before).map((delta) => delta.after as Node<'step'>)
    added.sort(
      (a, b) =>
        (a.data.order_index ?? Number.MAX_SAFE_INTEGER) - (b.data.order_index ?? Number.MAX_SAFE_INTEGER) ||
        (a.at ?? 0) - (b.at ?? 0),
    )
    take(
      rankNew(
        added.map((node) => node.id),
        steps,
        facts?.topRank ?? 0,
      ),
    )
    if (cycles.length > 0) continue
    for (const node of added)
      for (const dependency of node.data.dependencies ?? []) push(newDependants, dependency, node.id)
    for (const { before, after: changed } of structural) {
      if (!before) continue
      const known = new Set((before as Node<'step'>).data.dependencies)
      for (const dependency of (changed as Node<'step'>).data.dependencies ?? []) {
        if (known.has(dependency)) continue
        take(rankEdge(changed!.id, dependency, steps))
        push(newDependants, dependency, changed!.id)
      }
    }
  }
  return { ranks, cycles }
}

function push(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}
