import type { JsonObject } from '../protocol/json.ts'
import { confirmMayMove, isTerminal, type LifecycleKind, lifecycles, mayMove, moveRule } from '../protocol/lifecycle.ts'
import { isValid, problems } from '../protocol/validate.ts'
import { planDigest, verdict } from './approval.ts'
import type { AnyNode, Kind, Node } from './change.ts'
import { KINDS } from './kinds.ts'
import { isKind, referencesOf, statusOf } from './node.ts'
import type { Proposal } from './proposal.ts'
import { comesTo, type Delta, statusPath } from './state.ts'

/** Tells what is wrong, where in the node, and under which id if the rule has finer ones. */
export type Report = (path: string, message: string, id?: string) => void

/** One thing that must hold. Pure: looks at a proposal and says what is wrong with it. */
export interface Rule {
  readonly id: string
  /** For people: what it keeps true. */
  readonly keeps: string
  /** Which nodes it looks at; all kinds when absent. */
  readonly kinds?: readonly Kind[]
  readonly check: (delta: Delta, proposal: Proposal, report: Report) => void
}

/** Two that are found while the changes are folded together, before any node can be looked at. */
export const FOLDING: readonly Pick<Rule, 'id' | 'keeps'>[] = [
  { id: 'id.unique', keeps: 'an id names one node, in this context and in all others' },
  { id: 'node.exists', keeps: 'only what is there is changed or deleted' },
  { id: 'edge.unique', keeps: 'a dependency is added once' },
  { id: 'edge.exists', keeps: 'only a dependency that is there is taken away' },
]

const OWNERS: readonly Kind[] = ['step', 'decision', 'segment', 'segment_end', 'message', 'participant', 'network_node']
const LIVING = (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].lifecycle !== undefined)

export const RULES: readonly Rule[] = [
  {
    id: 'schema',
    keeps: 'every object fits the protocol’s shape',
    kinds: (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].schema !== undefined),
    check({ kind, after, statusOnly }, _, report) {
      if (!after || statusOnly) return // a status is checked by the lifecycle
      const schema = KINDS[kind].schema as Parameters<typeof isValid>[0]
      const whole = withStandIns(after)
      if (isValid(schema, whole)) return
      for (const problem of problems(schema, whole))
        report(problem.path, `${kind} ${after.id}: ${problem.path} ${problem.message}`)
    },
  },
  {
    id: 'id.fixed',
    keeps: 'a node’s id and what it belongs to never change',
    check({ kind, id, before, after }, _, report) {
      const { idField, refs = [] } = KINDS[kind]
      if (!after) return
      if (idField && field(after, idField) !== id) report(idField, `${kind} ${id} must keep its id in ${idField}`)
      if (!before || before.data === after.data) return
      for (const ref of refs)
        if (ref.edge !== 'DEPENDS_ON' && field(before, ref.field) !== field(after, ref.field))
          report(ref.field, `${kind} ${id} must keep its ${ref.field}`)
    },
  },
  {
    id: 'reference.resolves',
    keeps: 'whatever is referred to is there',
    check({ kind, id, before, after, statusOnly }, proposal, report) {
      if (!after || statusOnly || (before && kind !== 'step')) return
      for (const ref of referencesOf(after)) {
        if (ref.soft || proposal.after(ref.kind, ref.id)) continue
        report(ref.path, `${kind} ${id} refers to ${ref.kind} ${ref.id || '(none)'}, which is not there`)
      }
    },
  },
  {
    id: 'dependency.same_plan',
    keeps: 'a step waits only for steps of its own plan',
    kinds: ['step'],
    check({ id, after, statusOnly }, proposal, report) {
      if (!isKind(after, 'step') || statusOnly) return
      for (const [i, dependency] of (after.data.dependencies ?? []).entries()) {
        const other = proposal.after('step', dependency)
        if (other && other.owner !== after.owner)
          report(`dependencies[${i}]`, `step ${id} depends on step ${dependency} of another plan`)
      }
    },
  },
  {
    id: 'plan.acyclic',
    keeps: 'no step waits for itself, however far round',
    kinds: ['step'],
    check({ id, after, statusOnly }, proposal, report) {
      if (!after || statusOnly) return
      for (const cycle of proposal.order.cycles) {
        // Told once, at the first step of the commit that lies on it.
        const teller = proposal.stepsTouched(after.owner!).find((delta) => cycle.includes(delta.id))
        if (teller?.id === id) report('dependencies', `steps wait for each other: ${cycleText(cycle)}`)
      }
    },
  },
  {
    id: 'plan.has_steps',
    keeps: 'a plan has at least one step, a session at least one participant',
    kinds: ['plan', 'collab'],
    check({ kind, id, before, after }, proposal, report) {
      if (!after || before) return
      const part = kind === 'plan' ? 'step' : 'participant'
      const some = proposal.deltas.some((delta) => delta.kind === part && delta.after?.owner === id)
      if (!some) report(`${part}s`, `${kind} ${id} has no ${part}`)
    },
  },
  {
    id: 'birth',
    keeps: 'a new object begins at the beginning',
    kinds: LIVING,
    check(delta, _, report) {
      const { kind, id, before, after } = delta
      if (before || !after || after.imported) return
      const status = statusPath(delta)[0]!
      const births = BIRTHS[kind]
      if (births && !births.includes(status))
        report('status', `a new ${kind} is ${births.join(' or ')}, not ${status} (${id})`)
    },
  },
  {
    id: 'lifecycle',
    keeps: 'a status moves only along its lifecycle',
    kinds: LIVING,
    check(delta, proposal, report) {
      const { kind, id, after } = delta
      if (!after) return
      const lifecycle = KINDS[kind].lifecycle as LifecycleKind
      const path = statusPath(delta)
      for (let hop = 1; hop < path.length; hop++) {
        const [from, to] = [path[hop - 1]!, path[hop]!]
        if (from === to) continue
        if (!Object.hasOwn(lifecycles[lifecycle], to)) return report('status', `${kind} ${id} has no status ${to}`)
        const arrow = moveRule(lifecycle, from as never, to as never)
        const allowed = isKind(after, 'confirm')
          ? confirmMayMove({ ...after.data, status: from as never }, to as never)
          : mayMove(lifecycle, from as never, to as never)
        if (allowed === proposal.switched.has(arrow))
          report('status', `${kind} ${id} cannot go from ${from} to ${to}`, arrow)
      }
    },
  },
  {
    id: 'segment.end',
    keeps: 'a segment ends once, in a status that its start allows',
    kinds: ['segment_end'],
    check({ id, before, after }, proposal, report) {
      if (before || !isKind(after, 'segment_end')) return
      const start = proposal.after('segment', after.data.segment_id)
      if (start && !mayMove('segment', start.data.status, after.data.status))
        report('status', `segment ${id} cannot go from ${start.data.status} to ${after.data.status}`)
    },
  },
  {
    id: 'closed',
    keeps: 'what has ended stays as it ended',
    check({ kind, id, before, after }, _, report) {
      const lifecycle = KINDS[kind].lifecycle as LifecycleKind | undefined
      if (!before || !lifecycle) return
      const status = statusOf(before)!
      if (isTerminal(lifecycle, status as never) && (!after || after.data !== before.data))
        report('', `${kind} ${id} is ${status} and closed`)
    },
  },
  {
    id: 'closed.parts',
    keeps: 'nothing is added to, or changed in, what has ended',
    kinds: OWNERS,
    check({ kind, id, before, after }, proposal, report) {
      const part = (after ?? before)!
      const ownerKind = KINDS[kind].partOf!
      const owner = proposal.state.get(ownerKind, part.owner!)
      const lifecycle = KINDS[ownerKind].lifecycle as LifecycleKind
      if (!owner) return
      const status = statusOf(owner)!
      if (isTerminal(lifecycle, status as never))
        report('', `${kind} ${id} belongs to ${ownerKind} ${owner.id}, which is ${status} and closed`)
    },
  },
  {
    id: 'write_once',
    keeps: 'history is written once: decisions, segments, messages, snapshots',
    kinds: (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].writeOnce),
    check({ kind, id, before }, _, report) {
      if (before) report('', `${kind} ${id} is written once and never changes`)
    },
  },
  {
    id: 'dialog.active',
    keeps: 'messages are added to active dialogs only',
    kinds: ['message'],
    check({ after }, proposal, report) {
      const dialog = after && proposal.after('dialog', after.owner!)
      if (after && !after.imported && dialog && dialog.data.status !== 'active')
        report('', `dialog ${dialog.id} is ${dialog.data.status}: it takes no message`)
    },
  },
  {
    id: 'plan.frozen',
    keeps: 'from proposal on a plan’s head, steps and bindings stand still; only statuses move',
    kinds: ['plan', 'step', 'binding'],
    check({ kind, id, before, after, statusOnly }, proposal, report) {
      const plan = planOf((after ?? before)!, proposal)
      if (!plan || plan.data.status === 'draft' || statusOnly || (before && after && sameDefinition(before, after)))
        return
      report(
        '',
        `plan ${plan.id} is ${plan.data.status}: ${kind} ${id} cannot change; take the plan back to draft, or cancel it and submit another`,
      )
    },
  },
  {
    id: 'guard.plan.approved',
    keeps: 'a plan is approved by an approved Confirm',
    kinds: ['plan'],
    check(delta, proposal, report) {
      const { id } = delta
      if (!comesTo(delta, 'approved')) return
      const confirm = planConfirm(id, proposal)
      if (confirm?.data.status !== 'approved') report('status', `plan ${id} has no approved Confirm`)
    },
  },
  {
    id: 'guard.plan.start',
    keeps: 'a plan starts only in an active context',
    kinds: ['plan'],
    check(delta, proposal, report) {
      const { id } = delta
      if (!comesTo(delta, 'in_progress')) return
      const context = proposal.after('context', proposal.graph)
      if (context?.data.status !== 'active')
        report('status', `plan ${id} cannot start: its context is ${context?.data.status ?? 'not there'}`)
    },
  },
  {
    id: 'approval.bound',
    keeps: 'what starts is what was approved, once, in time',
    kinds: ['plan'],
    check(delta, proposal, report) {
      const { id, after } = delta
      if (!comesTo(delta, 'in_progress') || !isKind(after, 'plan')) return
      const gate = planGate(id, proposal)
      if (!gate) return report('status', `plan ${id} has no gate: it was never proposed here`)
      const unused = proposal.state.get('gate', gate.id)
      if (unused?.data.used_by !== undefined)
        return report('status', `the approval of plan ${id} was used by ${unused.data.used_by}`)
      if (gate.data.used_by === undefined)
        report('status', `plan ${id} must mark its approval as used in the commit that starts it`)
      if (gate.data.expires_at !== undefined && Date.parse(gate.data.expires_at) * 1000 <= proposal.micros)
        report('status', `the approval of plan ${id} expired at ${gate.data.expires_at}`)
      if (planDigest(after, proposal.groupAfter(after.group)) !== gate.data.digest)
        report('status', `plan ${id} is not the plan that was approved`)
    },
  },
  {
    id: 'approval.action',
    keeps: 'a gated action runs only once its own Confirm is approved',
    kinds: ['action'],
    check({ id, before, after }, proposal, report) {
      if (!before || !isKind(after, 'action') || statusOf(before) !== 'waiting' || after.data.status !== 'running')
        return
      const gate = gatesOf('action', id, proposal).at(-1)
      if (!gate) return
      const confirm = proposal.after('confirm', gate.data.confirm_id)
      if (confirm?.data.status !== 'approved')
        return report('status', `action ${id} waits for Confirm ${gate.data.confirm_id}`)
      if (gate.data.used_by === undefined)
        report('status', `action ${id} must mark its approval as used in the commit that starts it`)
      if (gate.data.expires_at !== undefined && Date.parse(gate.data.expires_at) * 1000 <= proposal.micros)
        report('status', `the approval of action ${id} expired at ${gate.data.expires_at}`)
    },
  },
  {
    id: 'confirm.verdict',
    keeps: 'a Confirm’s status is what its decisions amount to',
    kinds: ['confirm', 'decision'],
    check({ before, after }, proposal, report) {
      const confirm = isKind(after, 'decision')
        ? proposal.after('confirm', after.owner!)
        : isKind(after, 'confirm')
          ? after
          : undefined
      if (!confirm || confirm.imported) return
      if (isKind(after, 'confirm') && (statusOf(before) ?? 'pending') === confirm.data.status) return
      const decisions = [...decisionsOf(confirm.id, proposal)]
      const reopened = isKind(after, 'confirm') && statusOf(before) === 'rejected' && confirm.data.status === 'pending'
      const withdrawn = confirm.data.status === 'cancelled' && decisions.length === 0
      if (reopened || withdrawn) return
      const gate = gateOfConfirm(confirm.id, proposal)
      const says = verdict(
        gate?.data,
        decisions.map((decision) => decision.data),
      )
      if (says !== confirm.data.status)
        report('status', `Confirm ${confirm.id} is ${confirm.data.status}, but its decisions say ${says}`)
    },
  },
  {
    id: 'decision.allowed',
    keeps: 'only the roles that a gate names decide, and only in time',
    kinds: ['decision'],
    check({ id, before, after }, proposal, report) {
      if (before || !isKind(after, 'decision') || after.imported) return
      const gate = gateOfConfirm(after.owner!, proposal)
      if (!gate) return
      const { roles, expires_at } = gate.data
      const role = after.data.decided_by_role
      if (roles && !roles.includes(role))
        report('decided_by_role', `decision ${id}: role ${role} may not decide, only ${roles.join(', ')}`)
      if (
        expires_at !== undefined &&
        after.data.status === 'approved' &&
        Date.parse(expires_at) * 1000 <= proposal.micros
      )
        report('', `decision ${id} came too late: the gate expired at ${expires_at}`)
    },
  },
  {
    id: 'guard.step.plan_running',
    keeps: 'a step runs only while its plan does',
    kinds: ['step'],
    check(delta, proposal, report) {
      const { id } = delta
      if (!comesTo(delta, 'in_progress')) return
      const plan = proposal.after('plan', delta.after!.owner!)
      if (plan?.data.status !== 'in_progress')
        report('status', `step ${id} cannot start: its plan is ${plan?.data.status}`)
    },
  },
  {
    id: 'guard.step.dependencies',
    keeps: 'a step starts only when everything it waits for is completed or skipped',
    kinds: ['step'],
    check(delta, proposal, report) {
      const { id, after } = delta
      if (!comesTo(delta, 'in_progress') || !isKind(after, 'step')) return
      for (const [i, dependency] of (after.data.dependencies ?? []).entries()) {
        const status = proposal.after('step', dependency)?.data.status
        if (status !== 'completed' && status !== 'skipped')
          report(`dependencies[${i}]`, `step ${id} waits for step ${dependency}, which is ${status}`)
      }
    },
  },
  {
    id: 'guard.plan.completed',
    keeps: 'a plan is completed when every step is completed or skipped',
    kinds: ['plan'],
    check(delta, proposal, report) {
      const { id } = delta
      if (!comesTo(delta, 'completed')) return
      const tally = proposal.tallyAfter(id)
      if (tally.failed > 0) report('status', `plan ${id} cannot be completed: ${tally.failed} of its steps failed`)
    },
  },
  {
    id: 'plan.ends_steps',
    keeps: 'the commit that ends a plan ends its steps',
    kinds: ['plan'],
    check({ id, before, after }, proposal, report) {
      if (!before || !after || !isTerminal('plan', (after as Node<'plan'>).data.status) || before.data === after.data)
        return
      const { pending, blocked, in_progress } = proposal.tallyAfter(id)
      const open = pending + blocked + in_progress
      if (open > 0) report('status', `plan ${id} cannot end while ${open} of its steps are open`)
    },
  },
  {
    id: 'owner.fence',
    keeps: 'the state of a run changes only under its owner’s token',
    kinds: ['plan', 'step', 'action', 'segment', 'segment_end', 'timer', 'run'],
    check({ kind, id, before, after }, proposal, report) {
      if (proposal.options.fence !== undefined) return
      const node = (after ?? before)!
      const active = proposal.state.plan(node.group)?.activeRun
      if (
        active === undefined ||
        (kind === 'run' && onlyRequests(before, after)) ||
        proposal.state.get('run', active)?.data.phase === 'waiting'
      )
        return
      report('', `${kind} ${id} belongs to run ${active}, which has an owner: commit under its token`)
    },
  },
  {
    id: 'governance.locked',
    keeps: 'a locked object changes only with a newly approved Confirm in lastConfirmRef',
    check({ kind, id, before, after }, proposal, report) {
      const governance =
        before && (before.data as { governance?: { locked?: boolean; lastConfirmRef?: { id: string } } }).governance
      if (!before || !governance?.locked || after?.data === before.data) return
      const next = (after?.data as { governance?: typeof governance } | undefined)?.governance?.lastConfirmRef
      const fresh =
        next &&
        next.id !== governance.lastConfirmRef?.id &&
        proposal.after('confirm', next.id)?.data.status === 'approved'
      if (!fresh)
        report('governance.locked', `${kind} ${id} is locked: set governance.lastConfirmRef to an approved Confirm`)
    },
  },
  {
    id: 'module.area',
    keeps: 'a module writes its own areas only',
    check({ kind, id }, { options }, report) {
      if (options.module !== undefined && KINDS[kind].module !== options.module)
        report('', `module ${options.module} may not write ${kind} ${id}: that is ${KINDS[kind].module}’s`)
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
    keeps: 'roles and core are retired, history is kept: neither is deleted',
    kinds: (Object.keys(KINDS) as Kind[]).filter(
      (kind) => KINDS[kind].runState || KINDS[kind].project || kind === 'context',
    ),
    check({ kind, id, after }, _, report) {
      if (!after) report('', `a ${kind} is never deleted (${id})`)
    },
  },
  {
    id: 'graph.place',
    keeps: 'roles and core live in the project’s graph, everything else in its context’s',
    check({ kind, id, before, after }, proposal, report) {
      if (before || !after) return
      const inContext = proposal.after('context', proposal.graph) !== undefined
      if (KINDS[kind].project && inContext) report('', `${kind} ${id} belongs into the project’s graph`)
      if (kind === 'context' && id !== proposal.graph)
        report('context_id', `context ${id} is not the context of graph ${proposal.graph}`)
    },
  },
]

/** How each object may come into being when it is not imported. */
const BIRTHS: { readonly [K in Kind]?: readonly string[] } = {
  context: ['draft', 'active'],
  plan: ['draft'],
  step: ['pending'],
  confirm: ['pending'],
  trace: ['pending', 'running'],
  dialog: ['active'],
  collab: ['draft', 'active'],
  extension: ['registered'],
  core: ['draft', 'active'],
  network: ['draft'],
}

const STAND_INS: { readonly [K in Kind]?: JsonObject } = {
  plan: { steps: [{ step_id: '00000000-0000-4000-8000-000000000000', description: '-', status: 'pending' }] },
  collab: { participants: [{ participant_id: '-', kind: 'agent' }] },
}
/** Parts are nodes of their own, so a head is checked with one part standing in for all. */
const withStandIns = (node: AnyNode): JsonObject => {
  const standIn = STAND_INS[node.kind]
  return standIn ? { ...(node.data as JsonObject), ...standIn } : (node.data as JsonObject)
}

const field = (node: AnyNode, name: string) => (node.data as JsonObject)[name]

function planOf(node: AnyNode, proposal: Proposal): Node<'plan'> | undefined {
  if (isKind(node, 'plan')) return proposal.state.get('plan', node.id)
  if (isKind(node, 'step')) return proposal.state.get('plan', node.owner!)
  const step = isKind(node, 'binding') ? proposal.after('step', node.data.step_id) : undefined
  return step && proposal.state.get('plan', step.owner!)
}

function sameDefinition(before: AnyNode, after: AnyNode): boolean {
  const { status: _, ...was } = before.data as JsonObject
  const { status: __, ...is } = after.data as JsonObject
  return before.kind !== 'binding' && JSON.stringify(was) === JSON.stringify(is)
}

function* gatesTouched(proposal: Proposal): Iterable<Node<'gate'>> {
  for (const delta of proposal.deltas) if (isKind(delta.after, 'gate')) yield delta.after
}

/** Gates of a target, oldest first. */
function gatesOf(kind: 'plan' | 'action', id: string, proposal: Proposal): Node<'gate'>[] {
  const found = new Map<string, Node<'gate'>>()
  for (const confirm of proposal.state.referrers(kind, id, 'CONFIRMS'))
    for (const gate of proposal.state.referrers('confirm', confirm.id, 'GATES'))
      found.set(gate.id, proposal.after('gate', gate.id)!)
  for (const gate of gatesTouched(proposal))
    if (gate.data.target.kind === kind && gate.data.target.id === id) found.set(gate.id, gate)
  return [...found.values()].sort((a, b) => a.born - b.born)
}

const planGate = (plan: string, proposal: Proposal) => gatesOf('plan', plan, proposal).at(-1)

function planConfirm(plan: string, proposal: Proposal): Node<'confirm'> | undefined {
  const gate = planGate(plan, proposal)
  return gate && proposal.after('confirm', gate.data.confirm_id)
}

function gateOfConfirm(confirm: string, proposal: Proposal): Node<'gate'> | undefined {
  let latest: Node<'gate'> | undefined // a plan that is proposed again gets a new gate on the same Confirm
  for (const gate of proposal.state.referrers('confirm', confirm, 'GATES'))
    if (!latest || gate.born > latest.born) latest = gate as Node<'gate'>
  for (const gate of gatesTouched(proposal)) if (gate.data.confirm_id === confirm) latest = gate
  return latest
}

function* decisionsOf(confirm: string, proposal: Proposal): Iterable<Node<'decision'>> {
  const old = [...proposal.state.targets('confirm', confirm, 'CONTAINS')].filter((node) => isKind(node, 'decision'))
  yield* old.sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
  for (const delta of proposal.deltas)
    if (!delta.before && isKind(delta.after, 'decision') && delta.after.owner === confirm) yield delta.after
}

function onlyRequests(before: AnyNode | undefined, after: AnyNode | undefined): boolean {
  if (!isKind(before, 'run') || !isKind(after, 'run')) return false
  const { requested: _, ...was } = before.data
  const { requested: __, ...is } = after.data
  return JSON.stringify(was) === JSON.stringify(is)
}

const cycleText = (cycle: readonly string[]): string =>
  cycle.length <= 8 ? cycle.join(' -> ') : `${cycle.slice(0, 6).join(' -> ')} -> … (${cycle.length - 1} steps)`
