import {
  confirmMayMove,
  isTerminal,
  type LifecycleKind,
  lifecycles,
  mayMove,
  moveRule,
} from '../../protocol/lifecycle.ts'
import type { AnyNode, Kind, Node } from '../change.ts'
import { comesTo, type Delta, eachHop, statusPath } from '../delta.ts'
import { KINDS } from '../kinds.ts'
import { isKind, statusOf } from '../node.ts'
import type { Proposal } from '../proposal.ts'
import { gateFor } from './gates.ts'
import { hasEnded } from './keeping.ts'
import { kindsWith, type Report, type Rule } from './rule.ts'

/** Where things begin, where they may go, and what must hold on the way. */
export const LIFECYCLE: readonly Rule[] = [
  {
    id: 'birth',
    keeps: 'a new object begins at the beginning, one that comes back where it stood',
    kinds: kindsWith(({ lifecycle }) => lifecycle),
    check(delta, proposal, report) {
      const { kind, id, before, after } = delta
      if (before || !after || after.imported) return
      const status = statusPath(delta)[0]
      const tombstone = proposal.revived(kind, id)
      const births = tombstone ? [statusOf(tombstone)!] : BIRTHS[kind]!
      if (status !== undefined && !births.includes(status))
        report('status', `a new ${kind} is ${births.join(' or ')}, not ${status} (${id})`)
    },
  },
  {
    id: 'lifecycle',
    keeps: 'a status moves only along its lifecycle',
    kinds: kindsWith(({ lifecycle }) => lifecycle),
    check(delta, proposal, report) {
      const { kind, id, after, statusOnly } = delta
      if (!after) return
      const lifecycle = KINDS[kind].lifecycle as LifecycleKind
      eachHop(delta, (from, to) => {
        // A commit that asks for nothing but this move is refused when somebody else has made it already: it would be told that the move was its own.
        if (from === to && !(statusOnly && !delta.via)) return
        if (!Object.hasOwn(lifecycles[lifecycle], from)) return
        if (!Object.hasOwn(lifecycles[lifecycle], to)) return report('status', `${kind} ${id} has no status ${to}`)
        const allowed = isKind(after, 'confirm')
          ? confirmMayMove({ ...after.data, status: from as never }, to as never)
          : mayMove(lifecycle, from as never, to as never)
        if (allowed && proposal.switched.size === 0) return
        const arrow = moveRule(lifecycle, from as never, to as never)
        if (allowed === proposal.switched.has(arrow))
          report('status', `${kind} ${id} cannot go from ${from} to ${to}`, arrow)
      })
    },
  },
  {
    id: 'segment.end',
    keeps: 'a segment ends once, in a status that its start allows',
    kinds: ['segment_end'],
    check({ id, before, after }, proposal, report) {
      if (before || !isKind(after, 'segment_end')) return
      const start = proposal.after('segment', after.data.segment_id)
      if (start && !mayEnd(start.data.status, after.data.status))
        report('status', `segment ${id} cannot go from ${start.data.status} to ${after.data.status}`)
    },
  },
  {
    id: 'trace.ends_segments',
    keeps: 'the commit that ends a trace ends its segments',
    kinds: ['trace'],
    check({ id, before, after }, proposal, report) {
      if (!after || !hasEnded(after) || (before ? before.data === after.data : after.imported)) return
      const run = proposal.state.plan(after.group)?.activeRun
      if (run !== undefined && proposal.state.get('run', run)?.data.trace_id === id) return // or what others left in it would hold the run
      const open = openSegments(id, proposal).length
      if (open > 0) report('status', `trace ${id} cannot end while ${open} of its segments are open: end them with it`)
    },
  },
  {
    id: 'dialog.active',
    keeps: 'messages are added to active dialogs only',
    kinds: ['message'],
    check({ before, after }, proposal, report) {
      if (before || !after || after.imported) return
      const dialog = proposal.after('dialog', after.owner ?? '')
      if (dialog && dialog.data.status !== 'active')
        report('', `dialog ${dialog.id} is ${dialog.data.status}: it takes no message`)
    },
  },
  {
    id: 'context.open',
    keeps: 'nothing begins in a context that is archived or closed',
    kinds: ['plan', 'dialog', 'collab', 'extension', 'network'],
    check({ kind, id, before, after }, proposal, report) {
      if (before || !after || after.imported) return
      const status = proposal.state.get('context', proposal.graph)?.data.status
      if (status === 'archived' || status === 'closed')
        report('context_id', `${kind} ${id} cannot begin: its context is ${status}`)
    },
  },
  {
    id: 'guard.plan.start',
    keeps: 'a plan starts only in an active context',
    kinds: ['plan'],
    check: startsInActiveContext,
  },
  {
    id: 'guard.plan.completed',
    keeps: 'a plan is completed when every step is completed or skipped',
    kinds: ['plan'],
    check(delta, proposal, report) {
      if (!comesTo(delta, 'completed')) return
      const { failed } = proposal.tallyAfter(delta.id)
      if (failed > 0) report('status', `plan ${delta.id} cannot be completed: ${failed} of its steps failed`)
    },
  },
  {
    id: 'plan.ends_steps',
    keeps: 'the commit that ends a plan ends its steps',
    kinds: ['plan'],
    check({ id, before, after }, proposal, report) {
      if (!after || !hasEnded(after) || (before ? before.data === after.data : after.imported)) return
      const { pending, blocked, in_progress } = proposal.tallyAfter(id)
      const open = pending + blocked + in_progress
      if (open > 0) report('status', `plan ${id} cannot end while ${open} of its steps are open`)
    },
  },
  {
    id: 'guard.step.plan_running',
    keeps: 'a step runs only while its plan does, and an imported plan only if it was started here',
    kinds: ['step'],
    check(delta, proposal, report) {
      if (!comesTo(delta, 'in_progress')) return
      const plan = proposal.after('plan', delta.after!.owner ?? '')
      if (plan?.data.status !== 'in_progress')
        report('status', `step ${delta.id} cannot start: its plan is ${plan?.data.status ?? 'not there'}`)
      else if (plan.imported && gateFor('plan', plan.id, proposal)?.data.used_by === undefined)
        report('status', `step ${delta.id} cannot start: plan ${plan.id} was running when it was imported`)
    },
  },
  {
    id: 'guard.step.context',
    keeps: 'a step starts only in an active context',
    kinds: ['step'],
    check: startsInActiveContext,
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
          report(`dependencies[${i}]`, `step ${id} waits for step ${dependency}, which is ${status ?? 'not there'}`)
      }
    },
  },
  {
    id: 'guard.step.blocked',
    keeps: 'a step is blocked only by the failure of a step it waits for',
    kinds: ['step'],
    check(delta, proposal, report) {
      const { id, after } = delta
      if (!comesTo(delta, 'blocked') || !isKind(after, 'step')) return
      const { dependencies = [] } = after.data
      if (!dependencies.some((dependency) => proposal.after('step', dependency)?.data.status === 'failed'))
        report('status', `step ${id} cannot be blocked: no step that it waits for has failed`)
    },
  },
  {
    id: 'run.single',
    keeps: 'a plan has one run at a time',
    kinds: ['run'],
    check({ id, after }, proposal, report) {
      if (!isKind(after, 'run') || after.data.phase === 'ended') return
      const { plan_id } = after.data
      const known = proposal.state.plan(plan_id)?.activeRun
      const runs = proposal.deltasOf('run').map((delta) => delta.id)
      for (const other of known === undefined || runs.includes(known) ? runs : [...runs, known]) {
        const run = other === id ? undefined : proposal.after('run', other)
        if (run?.data.plan_id === plan_id && run.data.phase !== 'ended')
          report('plan_id', `plan ${plan_id} has run ${other}, which has not ended`)
      }
    },
  },
  {
    id: 'owner.fence',
    keeps: 'the state of a run changes only under its owner’s token',
    kinds: ['plan', 'step', 'action', 'trace', 'segment', 'segment_end', 'timer', 'run'],
    check({ kind, id, before, after }, proposal, report) {
      if (proposal.options.fence !== undefined) return
      const plan = (after ?? before)!.group
      const active = proposal.state.plan(plan)?.activeRun
      if (active === undefined || (kind === 'run' && onlyRequests(before, after))) return
      const run = proposal.state.get('run', active)?.data
      const trace = kind === 'trace' ? id : (after ?? before)!.owner
      if (kind === 'trace' && id !== run?.trace_id) return // others may keep traces of the plan, too
      // One that waits has nobody: whoever has what it waits for wakes it, and until it has started anybody may withdraw it; its trace moves with it.
      const moves = proposal.deltasOf('run').some((delta) => delta.id === active)
      const started = proposal.state.get('plan', plan)?.data.status === 'in_progress'
      if (run?.phase === 'waiting' && (kind === 'run' || (trace === run.trace_id ? moves : !started))) return
      report('', `${kind} ${id} belongs to run ${active}: its owner changes it, under its token`)
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

function startsInActiveContext(delta: Delta, proposal: Proposal, report: Report): void {
  if (!comesTo(delta, 'in_progress')) return
  const status = proposal.after('context', proposal.graph)?.data.status
  if (status !== 'active')
    report('status', `${delta.kind} ${delta.id} cannot start: its context is ${status ?? 'not there'}`)
}

const mayEnd = (from: Node<'segment'>['data']['status'], to: Node<'segment_end'>['data']['status']): boolean =>
  Object.hasOwn(lifecycles.segment, from) && Object.hasOwn(lifecycles.segment, to) && mayMove('segment', from, to)

/** Those of a trace that have begun, or are to, and have no end. */
function openSegments(trace: string, proposal: Proposal): readonly string[] {
  const there = [...proposal.state.targets('trace', trace, 'CONTAINS')]
  const added = proposal.deltasOf('segment').flatMap(({ after }) => (after?.owner === trace ? [after] : []))
  return [...there, ...added].flatMap((node) =>
    isKind(node, 'segment') && !isTerminal('segment', node.data.status) && !proposal.after('segment_end', node.id)
      ? [node.id]
      : [],
  )
}

/** Anybody may ask a run for something; only its owner does it. */
function onlyRequests(before: AnyNode | undefined, after: AnyNode | undefined): boolean {
  if (!isKind(before, 'run') || !isKind(after, 'run')) return false
  const { requested: _, ...was } = before.data
  const { requested: __, ...is } = after.data
  return JSON.stringify(was) === JSON.stringify(is)
}
