import type { Json, JsonObject } from '../protocol/json.ts'
import type { Change, Kind } from '../psg/change.ts'
import { type DocumentKind, takeApart } from '../psg/document.ts'
import type { FlowChange } from './driver.ts'

/** A script's change in the words of the graph. */
export function changesOf(change: FlowChange): readonly Change[] {
  if ('move' in change) return [updated(change.move.kind, change.move.id, { status: change.move.to })]
  if ('edit' in change) return [updated(change.edit.kind, change.edit.id, change.edit.set)]
  if ('remove' in change) return [{ kind: 'node_delete', node: change.remove.kind as Kind, id: change.remove.id }]
  if ('depend' in change) return [{ kind: 'edge_add', from: change.depend.from, to: change.depend.to }]
  if ('free' in change) return [{ kind: 'edge_delete', from: change.free.from, to: change.free.to }]
  const { kind, document, owner } = change.add
  if (owner === undefined) return takeApart(kind as DocumentKind, document)
  return [
    {
      kind: 'node_add',
      node: kind as Kind,
      id: idIn(document, kind) ?? `${owner}/${LAST}`,
      owner,
      at: LAST,
      data: document,
    } as unknown as Change,
  ]
}

/** Roles and core live in the project's own graph. */
export const isOfProject = (change: FlowChange): boolean =>
  Object.values(change).some(({ kind }: { kind?: string }) => kind === 'role' || kind === 'core')

const LAST = 99 // behind every part that a flow has

const updated = (kind: string, id: string, set: JsonObject): Change =>
  ({ kind: 'node_update', node: kind as Kind, id, set }) as Change

/** A flow may give anything for a document, to see it refused. */
function idIn(document: Json, kind: string): string | undefined {
  const fields = Object(document)
  const id = fields[`${kind}_id`] ?? fields[`${kind.replace('_end', '')}_id`]
  return typeof id === 'string' ? id : undefined
}
