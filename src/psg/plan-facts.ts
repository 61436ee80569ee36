import type { StepStatus } from '../protocol/types.ts'
import type { Node } from './change.ts'
import { byPlace } from './node.ts'
import { rankNew } from './order.ts'

/** What is kept of a plan so that no check has to visit all its steps. */
export interface PlanFacts {
  readonly tally: Readonly<Record<StepStatus, number>>
  /** Where each step stands when the plan is gone through: by depth, then by order_index, then by place. The same in every process. */
  readonly ranks: ReadonlyMap<string, number>
  /** For checking new dependencies: every step comes after those it waits for. Kept edge by edge while the plan is a draft. */
  readonly order: { readonly ranks: ReadonlyMap<string, number>; readonly top: number }
  /** The run that has not ended. */
  readonly activeRun: string | undefined
  /** What came for it from outside and nobody has taken, by id, oldest first. */
  readonly signals: ReadonlyMap<string, Node<'signal'>>
}

export interface PlanRecord extends PlanFacts {
  readonly tally: Record<StepStatus, number>
  activeRun: string | undefined
  readonly signals: Map<string, Node<'signal'>>
  /** Steps have come, gone or changed. `ranks` are those of the order that changed; without them it is made anew when needed. */
  restructured(ranks?: readonly (readonly [string, number])[]): void
  removed(step: string): void
  /** Nobody adds dependencies now: the order that checks them can go. */
  settled(): void
}

export function planRecord(steps: () => Iterable<Node<'step'>>): PlanRecord {
  let walking: ReadonlyMap<string, number> | undefined
  let order: { ranks: Map<string, number>; top: number } | undefined
  const walk = () => {
    walking ??= walkingOrder([...steps()])
    return walking
  }
  const tally = noSteps()
  const count = () => Object.values(tally).reduce((sum, steps) => sum + steps)
  return {
    tally,
    activeRun: undefined,
    signals: new Map(),
    get ranks() {
      return walk()
    },
    get order() {
      order ??= { ranks: new Map(walk()), top: walk().size }
      return order
    },
    restructured(ranks) {
      walking = undefined
      if (!ranks) order = undefined
      else if (ranks.length === count()) order = { ranks: new Map(), top: 0 } // all of them are new
      for (const [step, rank] of order ? (ranks ?? []) : []) {
        order!.ranks.set(step, rank)
        if (rank > order!.top) order!.top = rank
      }
    },
    removed(step) {
      walking = undefined
      order?.ranks.delete(step)
    },
    settled() {
      order = undefined
    },
  }
}

export const noSteps = (): Record<StepStatus, number> => ({
  pending: 0,
  in_progress: 0,
  completed: 0,
  blocked: 0,
  skipped: 0,
  failed: 0,
})

/** Steps as a person would read them. */
export const byOrderIndex = (a: Node<'step'>, b: Node<'step'>): number =>
  (a.data.order_index ?? LAST) - (b.data.order_index ?? LAST) || byPlace(a, b)
const LAST = Number.MAX_SAFE_INTEGER

/** Not stored: it follows from the steps. Steps of a cycle, which only a damaged store can hold, have no rank. */
function walkingOrder(steps: Node<'step'>[]): ReadonlyMap<string, number> {
  const byId = new Map(steps.sort(byOrderIndex).map((step) => [step.id, step]))
  return rankNew([...byId.keys()], (id) => byId.get(id)?.data.dependencies ?? [], 0).ranks
}
