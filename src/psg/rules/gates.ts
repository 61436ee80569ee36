import { verdict } from '../approval.ts'
import type { Gate, Node } from '../change.ts'
import { byPlace, isKind, statusOf } from '../node.ts'
import type { Proposal } from '../proposal.ts'

/** The gate that stands for a plan or an action now: a plan that is proposed again gets a new one. */
export function gateFor(kind: 'plan' | 'action', id: string, proposal: Proposal): Node<'gate'> | undefined {
  let latest: Node<'gate'> | undefined
  for (const confirm of proposal.state.referrers(kind, id, 'CONFIRMS'))
    latest = later(latest, gateOfConfirm(confirm.id, proposal))
  for (const gate of gatesTouched(proposal))
    if (gate.data.target.kind === kind && gate.data.target.id === id) latest = later(latest, gate)
  return latest
}

/** The gate that a Confirm's decisions count for now. */
export function gateOfConfirm(confirm: string, proposal: Proposal): Node<'gate'> | undefined {
  let latest: Node<'gate'> | undefined
  for (const gate of proposal.state.referrers('confirm', confirm, 'GATES'))
    latest = later(latest, proposal.after('gate', gate.id))
  for (const gate of gatesTouched(proposal)) if (gate.data.confirm_id === confirm) latest = later(latest, gate)
  return latest
}

/** Decisions that count for a gate: those made since it was put up. Without a gate, all of them. */
export function decisionsFor(
  confirm: string,
  gate: Node<'gate'> | undefined,
  proposal: Proposal,
): readonly Node<'decision'>[] {
  const found: Node<'decision'>[] = []
  for (const node of proposal.state.targets('confirm', confirm, 'CONTAINS'))
    if (isKind(node, 'decision')) found.push(node)
  for (const { before, after } of proposal.partsTouched(confirm))
    if (!before && isKind(after, 'decision')) found.push(after)
  return found.sort(byPlace).filter((decision) => decision.born >= (gate?.born ?? 0))
}

/** What a decision that the commit adds makes of its Confirm's status: each its own share of it, where the commit adds several. */
export function hopOf(decision: Node<'decision'>, proposal: Proposal): { readonly from: string; readonly to: string } {
  const confirm = decision.owner!
  const gate = gateOfConfirm(confirm, proposal)
  const decisions = decisionsFor(confirm, gate, proposal)
  const at = decisions.findIndex(({ id }) => id === decision.id)
  const isNew = (node: Node<'decision' | 'gate'> | undefined) => node && !proposal.state.get(node.kind, node.id)
  const after = (count: number) =>
    verdict(
      gate?.data,
      decisions.slice(0, count).map(({ data }) => data),
    )
  return {
    from:
      isNew(gate) || isNew(decisions[at - 1])
        ? after(at)
        : (statusOf(proposal.state.get('confirm', confirm)) ?? 'pending'),
    to: isNew(decisions[at + 1]) ? after(at + 1) : (statusOf(proposal.after('confirm', confirm)) ?? 'pending'),
  }
}

/** Does a Confirm ask about what a gate stands for? The protocol has no word for an action of ours: it is `other`. */
export function isTargetOf({ data }: Node<'confirm'>, { kind, id }: Gate['target']): boolean {
  const { target_type, target_id } = data
  const fits =
    kind === 'plan' ? target_type === 'plan' : kind === 'action' ? target_type === 'other' : target_type !== 'plan'
  return fits && target_id === id
}

function* gatesTouched(proposal: Proposal): Iterable<Node<'gate'>> {
  for (const { after } of proposal.deltasOf('gate')) if (isKind(after, 'gate')) yield after
}

function later(known: Node<'gate'> | undefined, gate: Node<'gate'> | undefined): Node<'gate'> | undefined {
  return !known || (gate && byPlace(known, gate) < 0) ? gate : known
}
