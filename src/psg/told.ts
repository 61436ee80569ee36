import { isoMicros, microsOf } from '../protocol/clock.ts'
import { stageStatus } from '../protocol/events.ts'
import { isObject, type Json, type JsonObject, uuidOf } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { UpdateKind } from '../protocol/types.ts'
import type {
  BornEvent,
  EntryBody,
  EntryChange,
  EventDraft,
  Kind,
  ToldEvent,
  ToldHop,
  ToldMove,
  ToldOfRun,
  ToldUpdate,
} from './change.ts'
import { isFieldChange } from './field-change.ts'
import { KINDS } from './kinds.ts'
import { placeOf } from './node.ts'

/** A journal entry, and where it stands. */
interface Told<Body = EntryBody> {
  readonly stream: string
  readonly revision: number
  readonly body: Body
}

/**
 * The events of an entry, whole; none of one that is no graph's. An entry leaves out what the rest of it says: ids follow from its `commit_id`, times
 * from its `at`, moves and what happened to the graph from its changes, whom the events of a run are about from that run.
 */
export function eventsIn(entry: Told<unknown>): readonly BornEvent[] {
  if (!isGraphs(entry.body)) return []
  const told = entry as Told
  const { body } = told
  const { events, commit_id, project_id } = body
  const first = events.length === 0 ? 0 : microsOf(body.at) - (events.length - 1)
  return events.map((one, i) => {
    const { plan_id, event_id, event } = whole(one, told)
    const born = {
      event_id: event_id ?? uuidOf(`${commit_id}/${i}`),
      timestamp: isoMicros(first + i),
      ...(project_id !== undefined && 'event_family' in event && { project_id }),
      ...event,
    }
    return plan_id === undefined ? { event: born } : { plan_id, event: born }
  })
}

/** Streams of others may lie in the same store, and tell of events in their own way. */
export const isGraphs = (body: unknown): body is EntryBody =>
  isObject(body) &&
  Array.isArray(body.events) &&
  Array.isArray(body.changes) &&
  typeof body.commit_id === 'string' &&
  typeof body.at === 'string'

function whole(one: ToldEvent, told: Told): EventDraft {
  if ('event' in one) return one
  if ('move' in one) return moved(one, told)
  if ('hop' in one) return hopped(one, told)
  return 'update' in one ? updated(one, told) : ofRun(one, told)
}

/** A step's event for the status it came to. */
const STEP_EVENTS: { readonly [status: string]: string } = {
  in_progress: 'step_started',
  completed: 'step_completed',
  failed: 'step_failed',
}

const stepMoved = (
  plan: string,
  step: string,
  from: string,
  to: string,
  reason: string,
  order: number | undefined,
): EventDraft =>
  stage(
    STEP_EVENTS[to] ?? 'step_status_changed',
    plan,
    step,
    stageStatus(to as never),
    {
      ...(order !== undefined && { stage_order: order }),
      payload: { resource_type: 'step', resource_id: step, from_status: from, to_status: to, reason },
    },
    plan,
  )

const planMoved = (plan: string, { from, to, termination }: ToldHop, reason: string): EventDraft =>
  stage(
    'plan_status_changed',
    plan,
    'plan',
    stageStatus(to as never, from === 'in_progress'),
    {
      ...(isTerminal('plan', to as never) && { to_state: to }),
      ...(termination !== undefined && { decision_kind: 'terminate', termination_reason: termination }),
      payload: { resource_type: 'plan', resource_id: plan, from_status: from!, to_status: to, reason },
    },
    plan,
  )

/** A context's own pipeline begins when it is activated and is laid down when it no longer is. */
const contextMoved = (context: string, { from, to }: ToldHop, reason: string): EventDraft =>
  stage(
    to === 'active' ? 'context_activated' : 'context_deactivated',
    context,
    'context',
    to === 'active' ? 'running' : to === 'suspended' ? 'pending' : 'completed',
    {
      payload: {
        resource_type: 'context',
        resource_id: context,
        ...(from !== undefined && { from_status: from }),
        to_status: to,
        reason,
      },
    },
  )

/** Something has come to another stage. */
export function stage(
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

function moved({ move, order }: ToldMove, { body }: Told): EventDraft {
  const change = body.changes[move] as Extract<EntryChange, { was: unknown }>
  const { group, id } = placeOf(change.key)
  return stepMoved(group, id, String(change.was.status), String(change.now.status), body.reason, order)
}

function hopped(one: ToldHop, { body }: Told): EventDraft {
  const { kind, group, id } = placeOf(body.changes[one.hop]!.key)
  if (kind === 'plan') return planMoved(id, one, body.reason)
  if (kind === 'context') return contextMoved(id, one, body.reason)
  return stepMoved(group, id, one.from!, one.to, body.reason, one.order)
}

/** The run's id is the single agent's. */
function ofRun(one: ToldOfRun, { stream: context_id, body }: Told): EventDraft {
  const { plan_id, trace_id } = body.run_of!
  if ('sa' in one) {
    const { sa: event_type, payload } = one
    return { plan_id, event: { event_type, sa_id: body.run!, context_id, plan_id, trace_id, payload } }
  }
  const { execution, step_id } = one
  const payload = { ...(execution.payload as JsonObject), context_id, plan_id, step_id, trace_id }
  return { plan_id, event: { ...execution, payload } }
}

function updated(
  { update: [from, to], edges, module, statuses }: ToldUpdate,
  { stream, revision, body }: Told,
): EventDraft {
  const part = body.changes.slice(from, to).map((change, i) => inShort(change, statuses?.[i]))
  const { update_kind, event_type } = named(part, edges)
  const plan = planOf(body.changes.slice(from, to))
  return {
    ...(plan !== undefined && { plan_id: plan }),
    event: {
      event_type,
      event_family: 'graph_update',
      graph_id: stream,
      update_kind,
      node_delta: part.reduce((sum, { operation }) => sum + NODES[operation], 0),
      edge_delta: edges,
      source_module: module ?? 'runtime',
      payload: { revision, actor: body.actor, reason: body.reason, changes: part },
    },
  }
}

const NODES = { node_add: 1, node_update: 0, node_delete: -1 } as const

type Short = {
  readonly operation: keyof typeof NODES
  readonly node_type: Kind
  readonly node_id: string
  readonly status?: Json
}

/** One change as the event tells it: enough to follow what exists and in which status. */
function inShort(change: EntryChange, known: Json | undefined): Short {
  const { kind, id } = placeOf(change.key)
  const [operation, data]: [Short['operation'], JsonObject | undefined] = isFieldChange(change)
    ? ['node_update', change.now]
    : !change.before || change.before.deleted
      ? ['node_add', change.after?.data]
      : change.after?.deleted
        ? ['node_delete', undefined]
        : ['node_update', change.after?.data]
  const status = data?.status ?? known
  return { operation, node_type: kind, node_id: id, ...(status !== undefined && { status }) }
}

function named(part: readonly Short[], edgeDelta: number): { update_kind: UpdateKind; event_type: string } {
  const isPlanBirth = ({ operation, node_type }: Short) => operation === 'node_add' && node_type === 'plan'
  const { operation, node_type } = part.find(isPlanBirth) ?? part[0]!
  const facts = KINDS[node_type]
  if (part.length > 1)
    return { update_kind: 'bulk', event_type: operation === 'node_add' ? facts.added : 'graph_changed' }
  if (operation === 'node_add') return { update_kind: 'node_add', event_type: facts.added }
  if (operation === 'node_delete') return { update_kind: 'node_delete', event_type: `${node_type}_removed` }
  if (edgeDelta !== 0 && node_type === 'step')
    return edgeDelta > 0
      ? { update_kind: 'edge_add', event_type: 'dag_edge_added' }
      : { update_kind: 'edge_delete', event_type: 'dag_edge_removed' }
  return { update_kind: 'node_update', event_type: facts.updated }
}

/** The plan that it is about, if it is one: what else landed in the same commit, such as its context, does not hide it. */
function planOf(part: readonly EntryChange[]): string | undefined {
  let plan: string | undefined
  for (const { key } of part) {
    const { kind, group } = placeOf(key)
    if (!OF_PLANS.has(kind)) continue
    if (plan !== undefined && plan !== group) return undefined
    plan = group
  }
  return plan
}
const OF_PLANS: ReadonlySet<Kind> = new Set(['plan', 'step', 'run', 'action'])
