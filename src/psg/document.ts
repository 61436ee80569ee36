import { InvalidInput, NotFound } from '../protocol/errors.ts'
import { type Fields, oneOf, refuseUnlessFit } from '../protocol/fields.ts'
import type { JsonObject } from '../protocol/json.ts'
import { problem } from '../protocol/problem.ts'
import type { ProtocolTypes } from '../protocol/types.ts'
import { validate } from '../protocol/validate.ts'
import type { AnyNode, Change, Kind, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { isSegment } from './input.ts'
import { KINDS } from './kinds.ts'
import { byPlace, isKind, ofKind } from './node.ts'
import type { GraphState } from './state.ts'
import { traceEvents } from './trace-events.ts'
import { children } from './view.ts'

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

/** Of a trace: what its plan told while it was open, status changes, decisions, profile events and actions; or `all`, with what it did to the graph. */
export interface DocumentOptions {
  readonly events?: 'told' | 'all'
}

const TAKING: Fields = { imported: { says: 'true', rule: 'const', fits: (value) => value === true } }

/** An L1 document as the changes that add it: the head, its list emptied, and each member by itself. Throws InvalidInput. */
export function takeApart(kind: DocumentKind, document: unknown, options: { imported?: true } = {}): readonly Change[] {
  refuseUnlessDocument(kind)
  refuseUnlessFit('document options', options, TAKING)
  return partsOf(kind, validate(kind, document), options)
}

/** The same of one that is known to be valid. */
export function partsOf(kind: DocumentKind, document: Document, options: { imported?: true } = {}): readonly Change[] {
  const whole = document as JsonObject
  const { idField, parts } = KINDS[kind]
  const id = whole[idField!] as string
  const list = parts && (whole[parts.list] as readonly JsonObject[] | undefined)
  const head = list ? { ...whole, [parts.list]: [] } : whole
  const add = (node: Kind, nodeId: string, data: JsonObject, place: { owner?: string; at?: number }) =>
    ({ kind: 'node_add', node, id: nodeId, ...place, ...options, data }) as unknown as Change
  const members = (list ?? []).map((data, at) => {
    const memberId = KINDS[parts!.kind].idField
    return add(parts!.kind, memberId ? (data[memberId] as string) : `${id}/${at}`, data, { owner: id, at })
  })
  return [add(kind, id, head, {}), ...members]
}

/** The L1 document of an object, put together from its nodes. Throws NotFound. */
export async function documentOf<K extends DocumentKind>(
  graph: ProjectGraph,
  kind: K,
  id: string,
  options: DocumentOptions = {},
): Promise<Document<K>> {
  refuseUnlessDocument(kind)
  refuseUnlessFit('document options', options, { events: oneOf('told', 'all') })
  const { head, whole } = await readTogether(graph, kind, id)
  if (!isKind(head, 'trace') || head.imported) return whole as Document<K>
  const given = head.data.events ?? [] // by whoever keeps a trace by hand
  return { ...whole, events: [...given, ...(await traceEvents(graph, head, options))] } as unknown as Document<K>
}

/** What begins a group of its own is in it with all its parts, and much else that says nothing of them; a trace tells of its run's actions too. */
async function readTogether(graph: ProjectGraph, kind: DocumentKind, id: string) {
  const { parts, root } = KINDS[kind]
  const nodes = parts && root && kind !== 'trace' && isSegment(id) ? await graph.nodesOf(id, [kind, parts.kind]) : []
  const head = nodes.find((node) => node.kind === kind && node.id === id)
  // It may be one of those, lie in a group that somebody named, or have come back since by another process.
  if (!head) return graph.reading([[kind, id]], (state) => putTogether(state, kind, id))
  const members = nodes.filter((node) => node.kind === parts!.kind && node.owner === id).sort(byPlace)
  const list = members.map(({ data }) => data)
  return withParts(kind, id, head, list)
}

function putTogether(state: GraphState, kind: DocumentKind, id: string) {
  const { parts } = KINDS[kind]
  const list = !parts
    ? []
    : kind === 'trace'
      ? segmentsOf(state, id)
      : children(state, kind, id).map(({ data }) => data)
  return withParts(kind, id, state.get(kind, id), list)
}

function withParts(kind: DocumentKind, id: string, head: AnyNode | undefined, list: readonly unknown[]) {
  if (!head) throw new NotFound(kind, id)
  const { parts } = KINDS[kind]
  if (!parts || list.length === 0) return { head, whole: head.data as JsonObject }
  return { head, whole: { ...(head.data as JsonObject), [parts.list]: list } as JsonObject }
}

/** Those that somebody added to a trace, and the attempts of the run that it follows, in their order. */
function segmentsOf(state: GraphState, trace: string): readonly JsonObject[] {
  const placed: { readonly at: number; readonly segment: JsonObject }[] = []
  for (const node of ofKind(children(state, 'trace', trace), 'segment'))
    placed.push({ at: node.at ?? placed.length, segment: segmentOf(node, state) })
  for (const run of state.referrers('trace', trace, 'TRACED_BY'))
    for (const action of ofKind(state.nodesOf(run.group), 'action')) placed.push(...attemptsOf(action, state))
  return placed.sort((a, b) => a.at - b.at).map(({ segment }) => segment)
}

function attemptsOf({ data }: Node<'action'>, state: GraphState) {
  const { began = [], ended = [], action_id, action_type, step_id, turn } = data
  return began.map(({ segment_id, at, started_at }, i) => {
    const { status, finished_at, attributes } = ended[i] ?? { status: 'running' }
    const segment = {
      segment_id,
      label: state.get('step', step_id)!.data.description,
      status,
      started_at,
      ...(finished_at !== undefined && { finished_at }),
      attributes: { step_id, action_id, action_type, attempt: i + 1, ...turn, ...attributes },
    }
    return { at, segment: segment as JsonObject }
  })
}

/** A segment and its end, as the one object that the protocol knows. */
function segmentOf({ id, data }: Node<'segment'>, state: GraphState): JsonObject {
  const end = state.get('segment_end', id)?.data
  if (!end) return data as JsonObject
  return {
    ...(data as JsonObject),
    status: end.status,
    finished_at: end.finished_at,
    ...((data.attributes || end.attributes) && { attributes: { ...data.attributes, ...end.attributes } as JsonObject }),
  }
}

function refuseUnlessDocument(kind: unknown): void {
  if ((DOCUMENT_KINDS as readonly unknown[]).includes(kind)) return
  throw new InvalidInput('kind', [problem('', 'enum', 'is not one of the ten protocol objects', kind)])
}
