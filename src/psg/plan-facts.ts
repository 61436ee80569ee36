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
  /** The runs that its actions have submitted, by action and by their own id. */
  readonly children: ReadonlyMap<string, ReadonlyMap<string, Node<'child'>>>
}

/** The same, kept up to date. A class: every plan has one. */
export class PlanRecord implements PlanFacts {
  readonly tally = noSteps()
  readonly signals = new Map<string, Node<'signal'>>()
  readonly children = new Map<string, Map<string, Node<'child'>>>()
  activeRun: string | undefined
  readonly #steps: () => Iterable<Node<'step'>>
  #walking: ReadonlyMap<string, number> | undefined
  #order: { ranks: Map<string, number>; top: number } | undefined

  constructor(steps: () => Iterable<Node<'step'>>) {
    this.#steps = steps
  }

  get ranks(): ReadonlyMap<string, number> {
    this.#walking ??= walkingOrder([...this.#steps()])
    return this.#walking
  }

  get order(): PlanFacts['order'] {
    this.#order ??= { ranks: new Map(this.ranks), top: this.ranks.size }
    return this.#order
  }

  /** Steps have come, gone or changed. `ranks` are those of the order that changed; without them it is made anew when needed. */
  restructured(ranks?: readonly (readonly [string, number])[]): void {
    this.#walking = undefined
    const areNew = ranks?.length === Object.values(this.tally).reduce((sum, steps) => sum + steps)
    if (!ranks) this.#order = undefined
    else if (areNew) this.#order = { ranks: new Map(), top: 0 }
    if (!ranks || !this.#order) return
    for (const [step, rank] of ranks) {
      this.#order.ranks.set(step, rank)
      if (rank > this.#order.top) this.#order.top = rank
    }
  }

  removed(step: string): void {
    this.#walking = undefined
    this.#order?.ranks.delete(step)
  }

  /** Nobody adds dependencies now: the order that checks them can go. */
  settled(): void {
    this.#order = undefined
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
