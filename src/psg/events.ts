import { eventProblems } from '../protocol/base-event.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { EventDraft, Node, ToldEvent, ToldHop, ToldMove, ToldUpdate } from './change.ts'
import { type Delta, eachHop, statusPath } from './delta.ts'
import { eachReference, statusOf } from './node.ts'
import type { Proposal } from './proposal.ts'
import { hopOf } from './rules/gates.ts'
import { RunEvent } from './run-event.ts'
import { refersElsewhere } from './state.ts'
import { stage } from './told.ts'

/** A graph_update that tells more changes than this is split; the sum of its parts' deltas stays exact. */
const MOST_CHANGES = 500

/**
 * What a commit tells: its status changes, the caller's own events, the end of a plan, and what it did to the graph. Behind the end of a plan nothing
 * is told any more that executes: the evidence of a run is judged by that. Events are checked before anything lands, so that what is told can always
 * be read; `sample` lends them an id, a time and a project for that.
 */
export function eventsOf(proposal: Proposal, sample: Sample): readonly ToldEvent[] {
  const { switched, options } = proposal
  const ends: ToldEvent[] = []
  const told: ToldEvent[] = switched.has('event.pipeline_stage') ? [] : stages(proposal, ends)
  for (const given of options.events ?? []) {
    const { event_type } = given instanceof RunEvent ? given : given.event
    if (switched.has(`event.${event_type}`)) continue
    told.push(given instanceof RunEvent ? given.told : withoutBirth(given))
  }
  told.push(...ends)
  for (const one of told) if ('event' in one) refuseInvalid(one.event, sample)
  if (!switched.has('event.graph_update')) tellUpdates(proposal, told)
  return told
}

export interface Sample {
  readonly event_id: string
  readonly timestamp: string
  readonly project_id: string | undefined
}

/** Nobody brings his own id and time. */
function withoutBirth(draft: EventDraft): EventDraft {
  if (!('event_id' in draft.event || 'timestamp' in draft.event)) return draft
  const { event_id: _, timestamp: __, ...event } = draft.event
  return { ...draft, event: event as EventDraft['event'] }
}

function stages(proposal: Proposal, ends: ToldEvent[]): ToldEvent[] {
  const told: ToldEvent[] = []
  for (let i = 0; i < proposal.deltas.length; i++) {
    const delta = proposal.deltas[i]!
    const { kind, before, after } = delta
    if (!after || (after.imported && !before)) continue // what is imported happened elsewhere
    if (kind === 'step' && delta.statusOnly && !delta.via) {
      if (statusOf(before) !== statusOf(after)) told.push(moved(delta, i))
    } else if (kind === 'decision') {
      if (!before) told.push(decisionStage(after as Node<'decision'>, proposal))
    } else if (kind === 'step' || kind === 'plan' || kind === 'context') {
      if (kind === 'context' && !before && statusPath(delta)[0] === 'active')
        told.push(hop(delta, i, undefined, 'active', proposal))
      eachHop(delta, (from, to) => {
        if (from === to || (kind === 'context' && from !== 'active' && to !== 'active')) return
        const isEnd = kind === 'plan' && isTerminal('plan', to as never)
        ;(isEnd ? ends : told).push(hop(delta, i, from, to, proposal))
      })
    }
  }
  return told
}

/** A step's status moved, and nothing else: the change itself says from where to where. */
function moved({ after }: Delta, i: number): ToldMove {
  const { order_index: order } = (after as Node<'step'>).data
  return order === undefined ? { move: i } : { move: i, order }
}

/** From one status to another on its way; the plan's end tells why. */
function hop({ kind, after }: Delta, i: number, from: string | undefined, to: string, { options }: Proposal): ToldHop {
  const order = kind === 'step' ? (after as Node<'step'>).data.order_index : undefined
  const ended = kind === 'plan' && to !== 'completed' && isTerminal('plan', to as never)
  return {
    hop: i,
    ...(from !== undefined && { from }),
    to,
    ...(order !== undefined && { order }),
    ...(ended && options.termination !== undefined && { termination: options.termination }),
  }
}

const DECIDED = { approved: 'completed', rejected: 'failed', cancelled: 'skipped' } as const

function decisionStage(decision: Node<'decision'>, proposal: Proposal): EventDraft {
  const { data, owner } = decision
  const confirm = proposal.after('confirm', owner!)
  const plan = confirm && proposal.after('plan', confirm.group) ? confirm.group : undefined
  const { from, to } = hopOf(decision, proposal)
  return stage(
    'confirm_decision_added',
    plan ?? proposal.graph,
    owner!,
    DECIDED[data.status],
    {
      subject: data.decided_by_role,
      resource: confirm ? `${confirm.data.target_type}:${confirm.data.target_id}` : `confirm:${owner}`,
      action: 'execute',
      outcome: data.status === 'approved' ? 'allow' : 'deny',
      payload: {
        resource_type: 'confirm',
        resource_id: owner!,
        decision_id: data.decision_id,
        from_status: from,
        to_status: to,
        decided_by_role: data.decided_by_role,
        ...(data.reason !== undefined && { reason: data.reason }),
      },
    },
    plan,
  )
}

function tellUpdates(proposal: Proposal, told: ToldEvent[]): void {
  const { deltas, options } = proposal
  for (let from = 0; from < deltas.length; from += MOST_CHANGES) {
    const to = Math.min(from + MOST_CHANGES, deltas.length)
    let edges = 0
    let statuses: { [change: string]: string } | undefined
    for (let i = from; i < to; i++) {
      const { before, after } = deltas[i]!
      edges += edgeDeltaOf(deltas[i]!, proposal)
      const status = statusOf(after)
      if (status === undefined || status !== statusOf(before)) continue
      statuses ??= {}
      statuses[i - from] = status
    }
    const update: ToldUpdate = {
      update: [from, to],
      edges,
      ...(options.module !== undefined && { module: options.module }),
      ...(statuses && { statuses }),
    }
    told.push(update)
  }
}

function edgeDeltaOf({ kind, id, before, after, statusOnly }: Delta, proposal: Proposal): number {
  if (statusOnly || (before && after && !refersElsewhere(before, after))) return 0
  let edges = (after ? edgesOf(after, proposal) : 0) - (before ? edgesOf(before, proposal) : 0)
  // Whoever named it before it was there has an edge now.
  if (!before) for (const from of proposal.state.awaiting(kind, id)) if (proposal.after(from.kind, from.id)) edges++
  return edges
}
const edgesOf = (node: NonNullable<Delta['after']>, proposal: Proposal): number => {
  let edges = 0
  eachReference(node, (ref, kind, id) => {
    if (!ref.soft?.(node) || proposal.after(kind, id)) edges++
  })
  return edges
}

function refuseInvalid(event: EventDraft['event'], { event_id, timestamp, project_id }: Sample): void {
  const born =
    project_id !== undefined && 'event_family' in event
      ? { event_id, timestamp, project_id, ...event }
      : { event_id, timestamp, ...event }
  const found = eventProblems(born)
  if (found.length > 0) throw new InvalidInput(`event ${event.event_type}`, found)
}
