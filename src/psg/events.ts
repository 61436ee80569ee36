import { eventKind } from '../protocol/base-event.ts'
import { isoMicros } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { stageStatus } from '../protocol/events.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { UpdateKind } from '../protocol/types.ts'
import { problems, profileProblems } from '../protocol/validate.ts'
import type { BornEvent, EventDraft, Node } from './change.ts'
import { type Delta, eachHop, statusPath } from './delta.ts'
import { KINDS } from './kinds.ts'
import { eachReference, statusOf } from './node.ts'
import type { Proposal } from './proposal.ts'

/** A graph_update that tells more changes than this is split; the sum of its parts' deltas stays exact. */
const MOST_CHANGES = 500

export interface Birth {
  /** Gives each event its id and the next timestamp of the graph. */
  readonly stamp: () => { readonly event_id: string; readonly timestamp: string }
  readonly project_id?: string
}

/**
 * What a commit tells: its status changes, the caller's own events, the end of a plan, and what it did to the graph. Behind the end of a plan nothing
 * is told any more that executes: the evidence of a run is judged by that.
 */
export function eventsOf(proposal: Proposal, birth: Birth): readonly BornEvent[] {
  const { switched, options } = proposal
  const ends: EventDraft[] = []
  const drafts: EventDraft[] = switched.has('event.pipeline_stage') ? [] : stages(proposal, ends)
  for (const draft of options.events ?? []) if (!switched.has(`event.${draft.event.event_type}`)) drafts.push(draft)
  drafts.push(...ends)
  if (!switched.has('event.graph_update')) drafts.push(...updates(proposal))
  const events: BornEvent[] = []
  for (const { plan_id, event_id: chosen, event } of drafts) {
    const { event_id: minted, timestamp } = birth.stamp()
    const event_id = chosen ?? minted
    const born =
      birth.project_id !== undefined && 'event_family' in event
        ? { event_id, timestamp, project_id: birth.project_id, ...event }
        : { event_id, timestamp, ...event }
    if (born.event_id !== event_id || born.timestamp !== timestamp) Object.assign(born, { event_id, timestamp }) // nobody brings his own
    refuseInvalid(born)
    events.push(plan_id === undefined ? { event: born } : { plan_id, event: born })
  }
  return events
}

/** Strictly increasing stamps, never behind the clock. */
export function stamps(clock: { uuid(): string }, first: number): { stamp: Birth['stamp']; last(): string } {
  let micros = first - 1
  return {
    stamp() {
      micros++
      return { event_id: clock.uuid(), timestamp: isoMicros(micros) }
    },
    last: () => isoMicros(Math.max(micros, first)),
  }
}

function stages(proposal: Proposal, ends: EventDraft[]): EventDraft[] {
  const drafts: EventDraft[] = []
  for (const delta of proposal.deltas) {
    const { kind, before, after } = delta
    if (!after || (after.imported && !before)) continue // what is imported happened elsewhere
    if (kind === 'decision') {
      if (!before) drafts.push(decisionStage(after as Node<'decision'>, proposal))
    } else if (kind === 'step' || kind === 'plan' || kind === 'context') {
      if (kind === 'context' && !before && statusPath(delta)[0] === 'active')
        drafts.push(contextStage(delta, undefined, 'active', proposal))
      eachHop(delta, (from, to) => {
        if (from === to) return
        if (kind === 'step') drafts.push(stepStage(delta, from, to, proposal))
        else if (kind === 'plan')
          (isTerminal('plan', to as never) ? ends : drafts).push(planStage(delta, from, to, proposal))
        else if (from === 'active' || to === 'active') drafts.push(contextStage(delta, from, to, proposal))
      })
    }
  }
  return drafts
}

const STEP_EVENTS: { readonly [status: string]: string } = {
  in_progress: 'step_started',
  completed: 'step_completed',
  failed: 'step_failed',
}

const stepStage = ({ id, after }: Delta, from: string, to: string, { options }: Proposal): EventDraft =>
  stage(
    STEP_EVENTS[to] ?? 'step_status_changed',
    after!.owner!,
    id,
    stageStatus(to as never),
    {
      ...((after as Node<'step'>).data.order_index !== undefined && {
        stage_order: (after as Node<'step'>).data.order_index as number,
      }),
      payload: { resource_type: 'step', resource_id: id, from_status: from, to_status: to, reason: options.reason },
    },
    after!.owner!,
  )

const planStage = ({ id }: Delta, from: string, to: string, { options }: Proposal): EventDraft =>
  stage(
    'plan_status_changed',
    id,
    'plan',
    stageStatus(to as never, from === 'in_progress'),
    {
      ...(isTerminal('plan', to as never) && { to_state: to }),
      ...(isTerminal('plan', to as never) &&
        to !== 'completed' &&
        options.termination !== undefined && { decision_kind: 'terminate', termination_reason: options.termination }),
      payload: { resource_type: 'plan', resource_id: id, from_status: from, to_status: to, reason: options.reason },
    },
    id,
  )

/** A context's own pipeline begins when it is activated and is laid down when it no longer is. */
const contextStage = ({ id }: Delta, from: string | undefined, to: string, { options }: Proposal): EventDraft =>
  stage(
    to === 'active' ? 'context_activated' : 'context_deactivated',
    id,
    'context',
    to === 'active' ? 'running' : to === 'suspended' ? 'pending' : 'completed',
    {
      payload: {
        resource_type: 'context',
        resource_id: id,
        ...(from !== undefined && { from_status: from }),
        to_status: to,
        reason: options.reason,
      },
    },
  )

const DECIDED = { approved: 'completed', rejected: 'failed', cancelled: 'skipped' } as const

function decisionStage({ data, owner }: Node<'decision'>, proposal: Proposal): EventDraft {
  const confirm = proposal.after('confirm', owner!)
  const plan = confirm && proposal.after('plan', confirm.group) ? confirm.group : undefined
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
        from_status: statusOf(proposal.state.get('confirm', owner!)) ?? 'pending',
        to_status: confirm?.data.status ?? 'pending',
        decided_by_role: data.decided_by_role,
        ...(data.reason !== undefined && { reason: data.reason }),
      },
    },
    plan,
  )
}

function stage(
  event_type: string,
  pipeline_id: string,
  stage_id: string,
  stage_status: string,
  rest: JsonObject,
  plan_id?: string,
): EventDraft {
  return {
    ...(plan_id !== undefined && { plan_id }),
    event: { event_type, event_family: 'pipeline_stage', pipeline_id, stage_id, stage_status, ...rest },
  }
}

function* updates(proposal: Proposal): Iterable<EventDraft> {
  const { deltas, graph, options } = proposal
  for (let at = 0; at < deltas.length; at += MOST_CHANGES) {
    const part = deltas.length <= MOST_CHANGES ? deltas : deltas.slice(at, at + MOST_CHANGES)
    let nodeDelta = 0
    let edgeDelta = 0
    const changes: Json[] = []
    for (const delta of part) {
      nodeDelta += (delta.after ? 1 : 0) - (delta.before ? 1 : 0)
      edgeDelta += edgeDeltaOf(delta, proposal)
      changes.push(inShort(delta))
    }
    const { update_kind, event_type } = named(part, edgeDelta)
    const plan = planOf(part)
    yield {
      ...(plan !== undefined && { plan_id: plan }),
      event: {
        event_type,
        event_family: 'graph_update',
        graph_id: graph,
        update_kind,
        node_delta: nodeDelta,
        edge_delta: edgeDelta,
        source_module: options.module ?? 'runtime',
        payload: { revision: proposal.revision, actor: options.actor, reason: options.reason, changes },
      },
    }
  }
}

function edgeDeltaOf({ kind, id, before, after, statusOnly }: Delta, proposal: Proposal): number {
  if (statusOnly) return 0
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

/** One change as the event tells it: enough to follow what exists and in which status. */
function inShort({ kind, id, before, after }: Delta): Json {
  const operation = !before ? 'node_add' : !after ? 'node_delete' : 'node_update'
  const status = statusOf(after)
  return { operation, node_type: kind, node_id: id, ...(status !== undefined && { status }) }
}

function named(part: readonly Delta[], edgeDelta: number): { update_kind: UpdateKind; event_type: string } {
  const head = part.find((delta) => delta.kind === 'plan' && !delta.before) ?? part[0]!
  const facts = KINDS[head.kind]
  if (part.length > 1) return { update_kind: 'bulk', event_type: !head.before ? facts.added : 'graph_changed' }
  if (!head.before) return { update_kind: 'node_add', event_type: facts.added }
  if (!head.after) return { update_kind: 'node_delete', event_type: `${head.kind}_removed` }
  if (edgeDelta !== 0 && head.kind === 'step')
    return edgeDelta > 0
      ? { update_kind: 'edge_add', event_type: 'dag_edge_added' }
      : { update_kind: 'edge_delete', event_type: 'dag_edge_removed' }
  return { update_kind: 'node_update', event_type: facts.updated }
}

/** The plan that all of it is about, if it is one. */
function planOf(part: readonly Delta[]): string | undefined {
  const group = (part[0]!.after ?? part[0]!.before)!.group
  const isPlan = part.some(
    (delta) => delta.kind === 'plan' || delta.kind === 'step' || delta.kind === 'run' || delta.kind === 'action',
  )
  return isPlan && part.every((delta) => (delta.after ?? delta.before)!.group === group) ? group : undefined
}

/** Events are checked before anything lands, so that what is told can always be read. */
function refuseInvalid(event: BornEvent['event']): void {
  const kind = eventKind(event)
  const found = kind === 'sa-event' || kind === 'map-event' ? profileProblems(kind, event) : problems(kind, event)
  if (found.length > 0) throw new InvalidInput(`event ${event.event_type}`, found)
}
