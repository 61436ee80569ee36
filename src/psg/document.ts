import { toBaseEvent } from '../protocol/base-event.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { BaseEvent, ProtocolTypes } from '../protocol/types.ts'
import { validate } from '../protocol/validate.ts'
import type { BornEvent, Change, EntryBody, Kind, Node, NodeOf } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { KINDS } from './kinds.ts'
import { isKind } from './node.ts'

/** The ten protocol objects. */
export const DOCUMENT_KINDS = [
  'context',
  'plan',
  'confirm',
  'trace',
  'role',
  'extension',
  'dialog',
  'collab',
  'core',
  'network',
] as const
export type DocumentKind = (typeof DOCUMENT_KINDS)[number]
export type Document<K extends DocumentKind = DocumentKind> = ProtocolTypes[K]

/** The list of an object that becomes nodes of their own, and what its members become. */
const PARTS: { readonly [K in DocumentKind]?: { readonly list: string; readonly kind: Kind } } = {
  plan: { list: 'steps', kind: 'step' },
  confirm: { list: 'decisions', kind: 'decision' },
  trace: { list: 'segments', kind: 'segment' },
  dialog: { list: 'messages', kind: 'message' },
  collab: { list: 'participants', kind: 'participant' },
  network: { list: 'nodes', kind: 'network_node' },
}

/** An L1 document as the changes that add it: the head, its list emptied, and each member by itself. Throws InvalidInput. */
export function takeApart(kind: DocumentKind, document: unknown, options: { imported?: true } = {}): readonly Change[] {
  const whole = validate(kind, document) as JsonObject
  const id = whole[KINDS[kind].idField!] as string
  const parts = PARTS[kind]
  const list = parts && (whole[parts.list] as readonly JsonObject[] | undefined)
  const head = list ? { ...whole, [parts.list]: [] } : whole
  const add = (node: Kind, nodeId: string, data: JsonObject, place: { owner?: string; at?: number }) =>
    ({ kind: 'node_add', node, id: nodeId, ...place, ...options, data }) as unknown as Change
  const members = (list ?? []).map((data, at) => {
    const idField = KINDS[parts!.kind].idField
    return add(parts!.kind, idField ? (data[idField] as string) : `${id}/${at}`, data, { owner: id, at })
  })
  return [add(kind, id, head, {}), ...members]
}

/** The L1 document of an object, put together from its nodes. */
export async function documentOf<K extends DocumentKind>(
  graph: ProjectGraph,
  kind: K,
  id: string,
): Promise<Document<K>> {
  const head = await graph.require(kind as DocumentKind, id)
  const parts = PARTS[kind]
  let whole = head.data as JsonObject
  if (parts) {
    const members = [...graph.state.targets(kind, id, 'CONTAINS')].filter((node) => node.kind === parts.kind)
    members.sort((a, b) => (a.at ?? 0) - (b.at ?? 0))
    if (members.length > 0)
      whole = {
        ...whole,
        [parts.list]: members.map((node) =>
          isKind(node, 'segment') ? segmentOf(node, graph) : (node.data as JsonObject),
        ),
      }
  }
  if (kind === 'trace' && !head.imported) whole = { ...whole, events: await traceEvents(graph, head as Node<'trace'>) }
  return whole as Document<K>
}

/** A segment and its end, as the one object that the protocol knows. */
function segmentOf(segment: NodeOf<'segment'>, graph: ProjectGraph): JsonObject {
  const end = graph.get('segment_end', segment.id)
  if (!end) return segment.data as JsonObject
  const attributes = { ...segment.data.attributes, ...end.data.attributes }
  return {
    ...(segment.data as JsonObject),
    status: end.data.status,
    finished_at: end.data.finished_at,
    ...(Object.keys(attributes).length > 0 && { attributes }),
  }
}

/** What a trace tells: status changes, decisions, profile events and actions of its plan while it was open. */
async function traceEvents(graph: ProjectGraph, trace: Node<'trace'>): Promise<readonly BaseEvent[]> {
  const told: BaseEvent[] = []
  for await (const entry of graph.store.read(graph.id, { after: trace.born - 1 })) {
    const body = entry.body as unknown as EntryBody
    for (const born of body.events)
      if (belongs(born, trace)) told.push(toBaseEvent(born.event as never, { trace_id: trace.id }))
    if (ends(body, trace.id)) break
  }
  return told
}

function belongs({ plan_id, event }: BornEvent, trace: Node<'trace'>): boolean {
  if (event.event_family === 'graph_update') return false
  if (trace.data.plan_id !== undefined && plan_id !== undefined) return plan_id === trace.data.plan_id
  return event.trace_id === trace.id || (plan_id === undefined && trace.data.plan_id === undefined)
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])
const ends = (body: EntryBody, trace: string): boolean =>
  body.changes.some((change) => {
    if (!change.key.endsWith(`/trace/${trace}`)) return false
    const status =
      'status' in change
        ? change.status[1]
        : isObject(change.after)
          ? (change.after.data as JsonObject).status
          : undefined
    return ENDED.has(status as string)
  })
