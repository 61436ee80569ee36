import type { AnyNode, Kind } from './change.ts'
import { statusOf } from './node.ts'

/** A node before and after a commit. Neither side is absent on both. */
export interface Delta {
  readonly kind: Kind
  readonly id: string
  readonly before: AnyNode | undefined
  readonly after: AnyNode | undefined
  /** The status differs and nothing else. */
  readonly statusOnly: boolean
  /** Statuses that it passes through on the way, when the commit moves it more than once; a new node's first among them. */
  readonly via?: readonly string[]
}

/** Every status a delta goes through, from where it was, or was born, to where it ends. */
export function statusPath({ before, after, via = [] }: Delta): readonly string[] {
  const path = before ? [statusOf(before), ...via] : [...via]
  return [...path, statusOf(after)].filter((status) => status !== undefined)
}

/** Calls for each hop from status to status; one that stays where it is, is a hop to the same. */
export function eachHop(delta: Delta, visit: (from: string, to: string) => void): void {
  const { before, after, via } = delta
  if (via) {
    const path = statusPath(delta)
    for (let hop = 1; hop < path.length; hop++) visit(path[hop - 1]!, path[hop]!)
    return
  }
  const [from, to] = [statusOf(before), statusOf(after)]
  if (from !== undefined && to !== undefined) visit(from, to)
}

/** Does it come to this status in the commit? */
export function comesTo(delta: Delta, status: string): boolean {
  if (delta.via) return statusPath(delta).indexOf(status, 1) > 0
  return delta.before !== undefined && statusOf(delta.after) === status && statusOf(delta.before) !== status
}

/** May it change the order in which a plan is gone through? */
export const isStructural = ({ kind, statusOnly }: Delta): boolean => kind === 'step' && !statusOnly
