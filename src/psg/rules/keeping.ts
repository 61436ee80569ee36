import type { JsonObject } from '../../protocol/json.ts'
import { isTerminal, type LifecycleKind, lifecycles } from '../../protocol/lifecycle.ts'
import type { AnyNode, Kind, Node } from '../change.ts'
import { startsWith } from '../field-change.ts'
import { KINDS } from '../kinds.ts'
import { governanceOf, isKind, referencesOf, statusOf } from '../node.ts'
import type { Proposal } from '../proposal.ts'
import { kindsWith, type Rule } from './rule.ts'

/** What stays as it is: the ended, the written, the frozen, the locked, the needed. */
export const KEEPING: readonly Rule[] = [
  {
    id: 'closed',
    keeps: 'what has ended stays as it ended',
    kinds: kindsWith(({ lifecycle }) => lifecycle),
    check({ kind, id, before, after }, _, report) {
      if (before && hasEnded(before) && (!after || after.data !== before.data))
        report('', `${kind} ${id} is ${statusOf(before)} and closed`)
    },
  },
  {
    id: 'closed.parts',
    keeps: 'nothing is added to, or changed in, what has ended',
    kinds: kindsWith(({ partOf }) => partOf && KINDS[partOf].lifecycle),
    check({ kind, id, before, after }, proposal, report) {
      const owner = ownerOf(kind, (after ?? before)!, proposal)
      if (owner && hasEnded(owner))
        report('', `${kind} ${id} belongs to ${owner.kind} ${owner.id}, which is ${statusOf(owner)} and closed`)
    },
  },
  {
    id: 'write_once',
    keeps: 'history is written once: decisions, segments, messages, snapshots',
    kinds: kindsWith(({ writeOnce }) => writeOnce),
    check({ kind, id, before }, _, report) {
      if (before) report('', `${kind} ${id} is written once and never changes`)
    },
  },
  {
    id: 'attempts',
    keeps: 'of an attempt the beginning and the end are written once, and nothing once its plan has ended',
    kinds: ['action'],
    check({ id, before, after }, proposal, report) {
      if (!isKind(after, 'action')) return
      const { began = [], ended = [] } = after.data
      if (ended.length > began.length) report('ended', `action ${id} has more ends than beginnings`)
      const was = isKind(before, 'action') ? before.data : undefined
      if (was?.began === after.data.began && was?.ended === after.data.ended) return
      if (!startsWith(began, was?.began)) report('began', `attempts of action ${id} are written once and never change`)
      if (!startsWith(ended, was?.ended)) report('ended', `attempts of action ${id} are written once and never change`)
      const plan = proposal.state.get('plan', after.group)
      if (plan && hasEnded(plan) && !after.imported)
        report('', `action ${id} belongs to plan ${plan.id}, which is ${plan.data.status} and closed`)
    },
  },
  {
    id: 'plan.frozen',
    keeps: 'from proposal on a plan’s head, steps and bindings stand still; only statuses move',
    kinds: ['plan', 'step', 'binding'],
    check({ kind, id, before, after, statusOnly }, proposal, report) {
      if (statusOnly) return
      const plan = planOf((after ?? before)!, proposal)
      if (!plan || plan.data.status === 'draft' || (before && after && sameDefinition(before, after))) return
      const remedy = 'take the plan back to draft, or cancel it and submit another'
      report('', `plan ${plan.id} is ${plan.data.status}: ${kind} ${id} cannot change; ${remedy}`)
    },
  },
  {
    id: 'governance.locked',
    keeps:
      'a locked object and its parts change only when governance.lastConfirmRef comes to name a newer, approved Confirm about it',
    check({ kind, id, before, after }, proposal, report) {
      const changed = before !== undefined && (after?.data !== before.data || after.retired !== before.retired)
      const locked = changed && isLocked(before) ? before : ownerOf(kind, (after ?? before)!, proposal)
      if (!locked || !isLocked(locked) || hasNewConfirm(locked, proposal)) return
      report(
        'governance.locked',
        `${locked.kind} ${locked.id} is locked: ${kind} ${id} changes only with an approved Confirm about it in governance.lastConfirmRef`,
      )
    },
  },
  {
    id: 'delete.referenced',
    keeps: 'what is referred to is not deleted',
    check({ kind, id, after }, proposal, report) {
      if (after) return
      for (const referrer of [...proposal.state.referrers(kind, id), ...proposal.state.targets(kind, id, 'CONTAINS')]) {
        const left = proposal.after(referrer.kind, referrer.id)
        if (left && referencesOf(left).some((ref) => ref.kind === kind && ref.id === id))
          return report('', `${kind} ${id} is needed by ${referrer.kind} ${referrer.id}`)
      }
    },
  },
  {
    id: 'delete.history',
    keeps: 'contexts, roles, core and the state of runs are never deleted',
    kinds: kindsWith(({ runState, project }, kind) => runState || project || kind === 'context'),
    check({ kind, id, after }, _, report) {
      if (!after) report('', `a ${kind} is never deleted (${id})`)
    },
  },
]

export function hasEnded(node: AnyNode): boolean {
  const lifecycle = KINDS[node.kind].lifecycle as LifecycleKind
  const status = statusOf(node)!
  return Object.hasOwn(lifecycles[lifecycle], status) && isTerminal(lifecycle, status as never)
}

/** What a part belongs to, as it is before the commit: in the commit that ends an object, its parts may still change. */
function ownerOf(kind: Kind, part: AnyNode, proposal: Proposal): AnyNode | undefined {
  const { partOf } = KINDS[kind]
  return partOf && part.owner !== undefined ? proposal.state.get(partOf, part.owner) : undefined
}

function planOf(node: AnyNode, proposal: Proposal): Node<'plan'> | undefined {
  if (isKind(node, 'plan')) return proposal.state.get('plan', node.id)
  if (isKind(node, 'step')) return proposal.state.get('plan', node.owner ?? '')
  if (!isKind(node, 'binding')) return undefined
  const { step_id } = node.data
  const step = proposal.after('step', step_id) ?? proposal.state.get('step', step_id)
  return step && proposal.state.get('plan', step.owner ?? '')
}

function sameDefinition(before: AnyNode, after: AnyNode): boolean {
  const { status: _, ...was } = before.data as JsonObject
  const { status: __, ...is } = after.data as JsonObject
  return before.kind !== 'binding' && JSON.stringify(was) === JSON.stringify(is)
}

const isLocked = (node: AnyNode): boolean => governanceOf(node.data)?.locked === true

/** Newer than the one that stands there now, so that no approval opens a lock twice. */
function hasNewConfirm(locked: AnyNode, proposal: Proposal): boolean {
  const next = governanceOf(proposal.after(locked.kind, locked.id)?.data)?.lastConfirmRef?.id
  const last = governanceOf(locked.data)?.lastConfirmRef?.id
  if (next === undefined || next === last) return false
  const confirm = proposal.after('confirm', next)
  const born = last === undefined ? 0 : (proposal.after('confirm', last)?.born ?? 0)
  return confirm?.data.status === 'approved' && confirm.data.target_id === locked.id && confirm.born > born
}
