import { toBaseEvent } from '../protocol/base-event.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { BaseEvent } from '../protocol/types.ts'
import type { BornEvent, EntryBody, Node } from './change.ts'
import type { DocumentOptions } from './document.ts'
import { endsTrace } from './field-change.ts'
import type { ProjectGraph } from './graph.ts'
import { entriesOf } from './history.ts'
import { placeOf } from './node.ts'
import { eventsIn } from './told.ts'

/** What a trace tells of its plan while it was open. */
export async function traceEvents(
  graph: ProjectGraph,
  trace: Node<'trace'>,
  { events = 'told' }: DocumentOptions,
): Promise<readonly BaseEvent[]> {
  const told: BaseEvent[] = []
  for await (const { revision, body } of entriesOf(graph, trace.born - 1)) {
    for (const born of eventsIn({ stream: graph.id, revision, body }))
      if ((events === 'all' || born.event.event_family !== 'graph_update') && belongs(born, trace))
        told.push(inTrace(born, trace.id))
    if (ends(body, trace.id)) break
  }
  return told
}

/** Tool calls have short names in a trace, which those who read traces look for. */
function inTrace({ event }: BornEvent, trace_id: string): BaseEvent {
  const told = toBaseEvent(event as never, { trace_id })
  const isTool =
    event.event_family === 'runtime_execution' && (event.payload as JsonObject | undefined)?.action_type === 'tool_call'
  if (!isTool) return told
  return { ...told, event_type: event.status === 'running' ? 'tool.call' : 'tool.result' }
}

function belongs({ plan_id, event }: BornEvent, trace: Node<'trace'>): boolean {
  if (trace.data.plan_id !== undefined && plan_id !== undefined) return plan_id === trace.data.plan_id
  return event.trace_id === trace.id || (plan_id === undefined && trace.data.plan_id === undefined)
}

const ends = (body: EntryBody, trace: string): boolean =>
  body.changes.some((change) => {
    const { kind, id } = placeOf(change.key)
    return kind === 'trace' && id === trace && endsTrace(change)
  })
