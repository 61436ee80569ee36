import { ofKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { unmet } from '../psg/view.ts'

/** The steps of a plan that could start now, kept as others end rather than searched for. */
export interface ReadySet {
  readonly size: number
  /** The next in the plan's order. */
  take(): string | undefined
  /** How many were taken and put aside. */
  readonly aside: number
  /** Which, in no order. */
  asides(): Iterable<string>
  /** Keeps a step that was taken until others of its kind may begin: it need not be looked at whenever anything may. */
  putAside(step: string, kind: string): void
  /** Counts the first of a kind that were put aside, or the first of each, among the others again. */
  bringBack(kind?: string): void
  /** A step has ended in a way that satisfies what waits for it. */
  satisfied(step: string): void
}

export function readySet(state: GraphState, plan: string): ReadySet {
  const facts = state.plan(plan)!
  const waiting = new Map<string, number>()
  const heap: string[] = []
  const asides = new Map<string, string[]>()
  let aside = 0
  const before = (a: string, b: string) => facts.ranks.get(a)! < facts.ranks.get(b)! // made when two are ready at once, and not before

  for (const step of ofKind(state.nodesOf(plan), 'step')) {
    if (step.data.status !== 'pending') continue
    const waits = unmet(state, step)
    if (waits === 0) push(heap, step.id, before)
    else waiting.set(step.id, waits)
  }

  return {
    get size() {
      return heap.length
    },
    take: () => pop(heap, before),
    get aside() {
      return aside
    },
    *asides() {
      for (const steps of asides.values()) yield* steps
    },
    putAside(step, kind) {
      const others = asides.get(kind)
      if (others) push(others, step, before)
      else asides.set(kind, [step])
      aside++
    },
    bringBack(kind) {
      if (aside === 0) return
      for (const one of kind === undefined ? asides.keys() : [kind]) {
        const step = pop(asides.get(one) ?? [], before)
        if (step === undefined) continue
        push(heap, step, before)
        aside--
      }
    },
    satisfied(step) {
      for (const dependant of state.dependantsOf(step)) {
        const waits = waiting.get(dependant)
        if (waits === undefined) continue
        if (waits > 1) waiting.set(dependant, waits - 1)
        else {
          waiting.delete(dependant)
          push(heap, dependant, before)
        }
      }
    },
  }
}

type Before = (a: string, b: string) => boolean

function push(heap: string[], item: string, before: Before): void {
  let at = heap.push(item) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (!before(item, heap[parent]!)) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = item
}

function pop(heap: string[], before: Before): string | undefined {
  const first = heap[0]
  const item = heap.pop()
  if (heap.length === 0 || item === undefined) return first
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++
    if (!before(heap[child]!, item)) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = item
  return first
}
