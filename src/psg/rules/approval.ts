import { isOnTheWay, verdict } from '../approval.ts'
import type { Node } from '../change.ts'
import { comesTo } from '../delta.ts'
import { isKind, statusOf } from '../node.ts'
import type { Proposal } from '../proposal.ts'
import { decisionsFor, gateFor, gateOfConfirm, isTargetOf } from './gates.ts'
import type { Rule } from './rule.ts'

/** Who may allow what, and that what happens is what was allowed. */
export const APPROVAL: readonly Rule[] = [
  {
    id: 'approval.proposed',
    keeps:
      'a gate stands for what its Confirm asks about; a plan’s is put up when the plan is proposed, and bound to it as it then is',
    kinds: ['gate'],
    check({ id, before, after }, proposal, report) {
      if (before || !isKind(after, 'gate')) return
      const { target, confirm_id, digest } = after.data
      const confirm = proposal.after('confirm', confirm_id)
      if (confirm && !isTargetOf(confirm, target))
        report('target', `gate ${id} is for ${target.kind} ${target.id}, but Confirm ${confirm_id} asks about another`)
      if (target.kind !== 'plan') return
      const delta = proposal.delta('plan', target.id)
      if (!delta || !isKind(delta.after, 'plan') || !comesTo(delta, 'proposed'))
        report('target', `gate ${id} must come with the commit that proposes plan ${target.id}`)
      else if (proposal.digestAfter(delta.after) !== digest)
        report('digest', `gate ${id} is not bound to plan ${target.id} as it is proposed`)
    },
  },
  {
    id: 'approval.used',
    keeps: 'an approval is used once and stays used',
    kinds: ['gate'],
    check({ id, before, after }, _, report) {
      if (!isKind(before, 'gate') || !isKind(after, 'gate') || before.data.used_by === undefined) return
      if (after.data.used_by !== before.data.used_by)
        report('used_by', `gate ${id} was used by ${before.data.used_by} already`)
    },
  },
  {
    id: 'guard.plan.approved',
    keeps: 'a plan is approved by an approved Confirm',
    kinds: ['plan'],
    check(delta, proposal, report) {
      if (!comesTo(delta, 'approved')) return
      const gate = gateFor('plan', delta.id, proposal)
      const confirm = gate && proposal.after('confirm', gate.data.confirm_id)
      if (confirm?.data.status !== 'approved') report('status', `plan ${delta.id} has no approved Confirm`)
    },
  },
  {
    id: 'approval.bound',
    keeps: 'what starts is what was approved, once, in time',
    kinds: ['plan'],
    check(delta, proposal, report) {
      const { id, after } = delta
      if (!comesTo(delta, 'in_progress') || !isKind(after, 'plan')) return
      const gate = gateFor('plan', id, proposal)
      if (!gate) return report('status', `plan ${id} has no gate: it was never proposed here`)
      const used = proposal.state.get('gate', gate.id)?.data.used_by
      if (used !== undefined) return report('status', `the approval of plan ${id} was used by ${used}`)
      if (gate.data.used_by === undefined)
        report('status', `plan ${id} must mark its approval as used in the commit that starts it`)
      if (isOver(gate, proposal)) report('status', `the approval of plan ${id} expired at ${gate.data.expires_at}`)
      if (proposal.digestAfter(after) !== gate.data.digest)
        report('status', `plan ${id} is not the plan that was approved`)
    },
  },
  {
    id: 'approval.action',
    keeps:
      'a gated action runs only once its own Confirm is approved; where that is about what it comes to on its way, also once it has its no',
    kinds: ['action'],
    check({ id, before, after }, proposal, report) {
      if (!isKind(after, 'action') || after.data.status !== 'running' || statusOf(before) === 'running') return
      const gate = gateFor('action', id, proposal)
      if (!gate || proposal.state.get('gate', gate.id)?.data.used_by !== undefined) return
      const status = proposal.after('confirm', gate.data.confirm_id)?.data.status
      if (isOnTheWay(gate.data) && (status === 'rejected' || status === 'cancelled' || isOver(gate, proposal))) return
      if (status !== 'approved') return report('status', `action ${id} waits for Confirm ${gate.data.confirm_id}`)
      if (gate.data.used_by === undefined)
        report('status', `action ${id} must mark its approval as used in the commit that starts it`)
      if (isOver(gate, proposal)) report('status', `the approval of action ${id} expired at ${gate.data.expires_at}`)
    },
  },
  {
    id: 'confirm.verdict',
    keeps: 'a Confirm’s status is what its decisions amount to, unless it is withdrawn',
    kinds: ['confirm', 'decision'],
    check(delta, proposal, report) {
      const { before, after } = delta
      if (!after || (after.imported && !before)) return
      const confirm = isKind(after, 'decision') ? proposal.after('confirm', after.owner ?? '') : after
      if (!isKind(confirm, 'confirm') || confirm.data.status === 'cancelled') return
      if (isKind(after, 'confirm') && (statusOf(before) ?? 'pending') === confirm.data.status) return
      const gate = gateOfConfirm(confirm.id, proposal)
      const decisions = decisionsFor(confirm.id, gate, proposal).map((decision) => decision.data)
      const says = verdict(gate?.data, decisions)
      if (says !== confirm.data.status)
        report('status', `Confirm ${confirm.id} is ${confirm.data.status}, but its decisions say ${says}`)
    },
  },
  {
    id: 'decision.allowed',
    keeps: 'only the roles that a gate names decide, in time, and on what is up for decision',
    kinds: ['decision'],
    check({ before, after }, proposal, report) {
      if (before || !isKind(after, 'decision') || after.imported) return
      const confirm = after.owner ?? ''
      const gate = gateOfConfirm(confirm, proposal)
      if (!gate) return
      const { roles, expires_at, target } = gate.data
      const role = after.data.decided_by_role
      if (roles && !roles.includes(role))
        report('decided_by_role', `role ${role} may not decide confirm ${confirm}, only ${roles.join(', ')}`)
      if (after.data.status === 'approved' && isOver(gate, proposal))
        report('', `confirm ${confirm} is decided too late: its time was over at ${expires_at}`)
      const plan = target.kind === 'plan' ? proposal.state.get('plan', target.id) : undefined
      if (plan && plan.data.status !== 'proposed' && !comesToBeProposed(plan.id, proposal))
        report('', `plan ${plan.id} is ${plan.data.status}, not up for approval`)
    },
  },
]

const isOver = ({ data: { expires_at } }: Node<'gate'>, { micros }: Proposal): boolean =>
  expires_at !== undefined && Date.parse(expires_at) * 1000 <= micros

function comesToBeProposed(plan: string, proposal: Proposal): boolean {
  const delta = proposal.delta('plan', plan)
  return delta !== undefined && comesTo(delta, 'proposed')
}
