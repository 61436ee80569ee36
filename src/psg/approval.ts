import { type Digest, digestOfJson, type Json, type JsonObject } from '../protocol/json.ts'
import type { ConfirmStatus, Decision } from '../protocol/types.ts'
import type { AnyNode, Gate, Node } from './change.ts'
import { byPlace } from './node.ts'

/**
 * What the decisions on a gate amount to: its last word, unless that approves. Approval needs as many roles as the gate asks, counted since the
 * last decision that was none. Without a gate one approval is enough.
 */
export function verdict(
  gate: Pick<Gate, 'needed' | 'roles'> | undefined,
  decisions: readonly Decision[],
): ConfirmStatus {
  const last = decisions.at(-1)
  if (!last) return 'pending'
  if (last.status !== 'approved') return last.status
  return agreed(gate, decisions).size >= (gate?.needed ?? 1) ? 'approved' : 'pending'
}

/** The roles whose approval counts. */
export function agreed(gate: Pick<Gate, 'roles'> | undefined, decisions: readonly Decision[]): ReadonlySet<string> {
  const since = decisions.slice(decisions.findLastIndex((decision) => decision.status !== 'approved') + 1)
  const roles = since.map((decision) => decision.decided_by_role)
  return new Set(roles.filter((role) => !gate?.roles || gate.roles.includes(role)))
}

/** Is it about what its action comes to on its way, as a model does to a tool? A no is for that one to hear, which goes on without. */
export const isOnTheWay = ({ target, shows }: Gate): boolean =>
  typeof shows?.action_id === 'string' && shows.action_id !== target.id

/** What a plan's approval is bound to: its head and steps without their statuses, and its bindings. */
export function planDigest(plan: Node<'plan'>, parts: Iterable<AnyNode>): Digest {
  const steps: Node<'step'>[] = []
  const bindings: Node<'binding'>[] = []
  for (const part of parts) {
    if (part.kind === 'step') steps.push(part)
    else if (part.kind === 'binding') bindings.push(part)
  }
  steps.sort(byPlace)
  bindings.sort((a, b) => (a.id < b.id ? -1 : 1))
  return digestOfJson({
    plan: withoutStatus(plan.data as JsonObject),
    steps: steps.map((step) => withoutStatus(step.data)),
    bindings: bindings.map((binding) => binding.data as Json),
  })
}

function withoutStatus(data: JsonObject): JsonObject {
  const { status: _, ...definition } = data
  return definition
}
