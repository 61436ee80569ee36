import type { ActionLayer } from '../ael/layer.ts'
import type { Effect } from '../drift/compensate.ts'
import type { Left, RollbackPlan } from '../drift/rollback.ts'
import { isoNow } from '../protocol/clock.ts'
import { Refused } from '../protocol/errors.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { META } from '../protocol/meta.ts'
import type { Change, Commit, EventDraft, Node, SegmentEnd } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { insist } from '../psg/insist.ts'
import { ofKind } from '../psg/node.ts'
import { children } from '../psg/view.ts'
import { rerunIds, takenOverBy } from './rerun-ids.ts'

/** A rollback under way, told in a trace of its own on the plan of the run. */
export interface Journey {
  readonly graph: ProjectGraph
  readonly layer: ActionLayer
  readonly run: Node<'run'>
  readonly trace_id: string
  readonly actor: string
  readonly reason: string
}

/** Where all lies that a way back looks at. Its plan has ended, so that it may have left memory whenever others were let in. */
export const placeOfRun = ({ id, data }: Node<'run'>) =>
  [
    ['plan', data.plan_id],
    ['plan', rerunIds(id).plan],
  ] as const

/** What a run has taken over that goes on from this one is that one's to take back, and would be taken back twice. */
export function refuseIfRerun(graph: ProjectGraph, { id }: Node<'run'>): void {
  const other = takenOverBy(graph, id)
  if (other !== undefined) throw new Refused(`run ${other} has taken over what run ${id} did`, 'roll back that one')
}

/** What to write of a way back, and what to tell with it. Refused once others have gone on with it, for which they close our trace. */
export function write(
  journey: Journey,
  changes: () => readonly Change[],
  events: readonly EventDraft[],
): Promise<Commit> {
  const { graph, run, trace_id, actor, reason } = journey
  const unlessTakenOver = () => {
    if (graph.get('trace', trace_id)?.data.status !== 'running') throw takenOver(run)
    return changes()
  }
  return insist(graph, unlessTakenOver, { actor, reason, reads: placeOfRun(run), events })
}

export const takenOver = ({ id }: Node<'run'>): Refused =>
  new Refused(`run ${id} is being taken back by somebody else`, 'wait until that has ended')

/** Opens the trace, and closes what an earlier way back left open when it was cut off; not of one that began since ours was planned. */
export function beginning(journey: Journey, planned: number, gate: Node<'gate'> | undefined): readonly Change[] {
  const { graph, run, trace_id } = journey
  refuseIfRerun(graph, run)
  if (openTraces(graph, run).some(({ born }) => born > planned)) throw takenOver(run)
  return [
    ...interrupted(journey),
    ...openTraces(graph, run).map(({ id }) => closed(graph, id, 'failed')),
    {
      kind: 'node_add',
      node: 'trace',
      id: trace_id,
      data: {
        meta: META,
        trace_id,
        context_id: graph.id,
        plan_id: run.data.plan_id,
        root_span: {
          trace_id,
          span_id: graph.clock.uuid(),
          context_id: graph.id,
          attributes: { rollback_of: run.id, ...(gate && { confirm_id: gate.data.confirm_id }) },
        },
        status: 'running',
        started_at: isoNow(graph.clock),
      },
    },
    ...(gate && gate.data.used_by === undefined
      ? [{ kind: 'node_update' as const, node: 'gate' as const, id: gate.id, set: { used_by: trace_id } }]
      : []),
  ]
}

export const ending = (journey: Journey, done: boolean): readonly Change[] => [
  ...interrupted(journey),
  closed(journey.graph, journey.trace_id, done ? 'completed' : 'failed'),
]

/** Traces of ways back from a run that did not come to their end. */
export const openTraces = (graph: ProjectGraph, run: Node<'run'>): readonly Node<'trace'>[] =>
  waysBack(graph, run).filter(({ data: { status } }) => status === 'running')

/** Traces of all ways back from a run, oldest first. Others may trace its plan too, for reasons of their own. */
export function waysBack(graph: ProjectGraph, run: Node<'run'>): readonly Node<'trace'>[] {
  return [...ofKind(graph.state.referrers('plan', run.data.plan_id, 'RECORDS'), 'trace')]
    .filter(({ data: { root_span } }) => root_span.attributes?.rollback_of === run.id)
    .sort((a, b) => a.born - b.born)
}

/** Inverse actions that were under way when an earlier way back was cut off. */
export const cutOff = (graph: ProjectGraph, run: Node<'run'>): readonly Node<'action'>[] =>
  [...ofKind(graph.state.nodesOf(run.group), 'action')].filter(
    ({ data }) => data.compensates !== undefined && data.status === 'running',
  )

const closed = (graph: ProjectGraph, id: string, status: 'completed' | 'failed'): Change => ({
  kind: 'node_update',
  node: 'trace',
  id,
  set: { status, finished_at: isoNow(graph.clock) },
})

export function segmentStarts(
  { graph, trace_id }: Journey,
  segment_id: string,
  at: number,
  label: string,
  attributes: JsonObject,
): Change {
  return {
    kind: 'node_add',
    node: 'segment',
    id: segment_id,
    owner: trace_id,
    at,
    data: { segment_id, label, status: 'running', started_at: isoNow(graph.clock), attributes },
  }
}

export function segmentEnds(
  { graph, trace_id }: Pick<Journey, 'graph' | 'trace_id'>,
  segment_id: string,
  status: SegmentEnd['status'],
  attributes: JsonObject = {},
): Change {
  return {
    kind: 'node_add',
    node: 'segment_end',
    id: segment_id,
    owner: trace_id,
    data: { segment_id, status, finished_at: isoNow(graph.clock), attributes },
  }
}

export const plannedEvent = (journey: Journey, plan: RollbackPlan): EventDraft =>
  told(journey, 'rollback_planned', {
    steps: plan.effects.map(({ step_id, action_id }: Effect) => ({ step_id, action_id })),
    files: plan.files.map(({ path }) => path),
    graph_changes: plan.changes.length,
    irreversible: plan.irreversible as unknown as Json,
    conflicts: plan.conflicts as unknown as Json,
    impossible: plan.impossible as unknown as Json,
  })

export const executedEvent = (
  journey: Journey,
  result: { readonly effects: Json; readonly files: Json; readonly left: readonly Left[] },
): EventDraft =>
  told(journey, 'rollback_executed', {
    outcomes: result.effects,
    files: result.files,
    left: result.left as unknown as Json,
  })

function told({ graph, run, trace_id, reason }: Journey, event_type: string, more: JsonObject): EventDraft {
  const { plan_id } = run.data
  const payload = { compensation_id: run.id, plan_id, trace_id, reason, at: isoNow(graph.clock), ...more }
  return { plan_id, event: { event_type, event_family: 'compensation_plan', payload } }
}

/** What was under way when an earlier rollback died: nobody knows how far it got, and it is tried again under the same key. */
function* interrupted({ graph, run }: Journey): Iterable<Change> {
  for (const { id: trace_id } of openTraces(graph, run))
    for (const { id } of ofKind(children(graph.state, 'trace', trace_id), 'segment'))
      if (!graph.get('segment_end', id)) yield segmentEnds({ graph, trace_id }, id, 'failed', { interrupted: true })
  for (const { id } of cutOff(graph, run))
    yield {
      kind: 'node_update',
      node: 'action',
      id,
      set: { status: 'failed', error: { code: 'interrupted', message: 'the rollback was cut off' } },
    }
}
