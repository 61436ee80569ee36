import { type Clock, isoNow } from '../protocol/clock.ts'
import { META } from '../protocol/meta.ts'
import type { Confirm, ConfirmStatus, Decision } from '../protocol/types.ts'
import { agreed } from './approval.ts'
import type { Change, Gate, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { byPlace, ofKind } from './node.ts'
import { children } from './view.ts'

/** What a Confirm asks people about, and on whose behalf. */
type Asks = Pick<Confirm, 'confirm_id' | 'target_type' | 'target_id' | 'requested_by_role' | 'reason'>

/** Puts a question to people: a Confirm that nobody has decided on yet. `group` is needed where what it asks about is in no graph. */
export const newConfirm = (clock: Pick<Clock, 'now'>, asks: Asks, group?: string): Change => ({
  kind: 'node_add',
  node: 'confirm',
  id: asks.confirm_id,
  ...(group !== undefined && { group }),
  data: {
    meta: META,
    ...asks,
    status: 'pending',
    requested_at: isoNow(clock),
    decisions: [],
  },
})

/** The Confirm that a plan was last put up for approval with. */
export function confirmOf(graph: ProjectGraph, planId: string): Node<'confirm'> | undefined {
  let latest: { confirm: Node<'confirm'>; gate: Node<'gate'> } | undefined
  for (const confirm of ofKind(graph.state.referrers('plan', planId, 'CONFIRMS'), 'confirm')) {
    const gate = gateOf(graph, confirm.id)
    if (gate && (!latest || byPlace(latest.gate, gate) < 0)) latest = { confirm, gate }
  }
  return latest?.confirm
}

/** The gate that a Confirm's decisions count for now. */
export function gateOf(graph: ProjectGraph, confirmId: string): Node<'gate'> | undefined {
  let latest: Node<'gate'> | undefined
  for (const gate of ofKind(graph.state.referrers('confirm', confirmId, 'GATES'), 'gate'))
    if (!latest || byPlace(latest, gate) < 0) latest = gate
  return latest
}

/** How long people had to answer when it was first asked; `undefined` where its question had no end. */
export function timeToAnswer(graph: ProjectGraph, { id, data }: Node<'confirm'>): number | undefined {
  const [first] = [...ofKind(graph.state.referrers('confirm', id, 'GATES'), 'gate')].sort(byPlace)
  const expires = first?.data.expires_at
  return expires === undefined ? undefined : Date.parse(expires) - Date.parse(data.requested_at)
}

/** Has nobody answered it yet? Also one that the commit under way is only about to put. */
export const isUnanswered = (graph: ProjectGraph, confirmId: string): boolean =>
  answerTo(graph, confirmId) === 'pending'

/** Does it wait for an answer, and would one still count? A run that is paused, or has no worker, does not take in that the time is over. */
export function isAnswerable(graph: ProjectGraph, { id, data }: Node<'confirm'>): boolean {
  const gate = data.status === 'pending' ? gateOf(graph, id) : undefined
  return gate ? !isExpired(gate.data, graph) : data.status === 'pending'
}

export const isExpired = ({ expires_at }: Gate, graph: Pick<ProjectGraph, 'now'>): boolean =>
  expires_at !== undefined && Date.parse(expires_at) <= graph.now

/** What its answers come to so far. */
export const answerTo = (graph: ProjectGraph, confirmId: string): ConfirmStatus =>
  graph.get('confirm', confirmId)?.data.status ?? 'pending'

/** Who has approved what a Confirm asks now, by role. */
export function agreedTo(graph: ProjectGraph, confirmId: string): ReadonlySet<string> {
  const gate = gateOf(graph, confirmId)
  return agreed(gate?.data, counting(decisionNodes(graph, confirmId), gate))
}

/** The roles that may still approve it; `undefined` where any may. */
export function rolesLeft(graph: ProjectGraph, confirmId: string): readonly string[] | undefined {
  const has = agreedTo(graph, confirmId)
  return gateOf(graph, confirmId)?.data.roles?.filter((role) => !has.has(role))
}

/** Of decisions, those made since the gate was put up. */
export const counting = (decisions: readonly Node<'decision'>[], gate: Node<'gate'> | undefined): readonly Decision[] =>
  decisions.filter((node) => node.born >= (gate?.born ?? 0)).map((node) => node.data)

/** What was decided on a Confirm, in that order. */
export function decisionNodes(graph: ProjectGraph, confirmId: string): readonly Node<'decision'>[] {
  return [...ofKind(children(graph.state, 'confirm', confirmId), 'decision')]
}
