import { NotFound } from '../protocol/errors.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'

/** A context's snapshots, oldest first. */
export const snapshotsOf = (graph: ProjectGraph): readonly Node<'snapshot'>[] =>
  [...graph.state.nodesOf('-')].filter((node) => isKind(node, 'snapshot')).sort((a, b) => a.born - b.born)

/** A revision: its number, or the id or name of a snapshot; of two with one name the later. Throws NotFound. */
export function revisionOf(graph: ProjectGraph, text: string): number {
  if (/^\d+$/.test(text)) return Number(text)
  const found = snapshotsOf(graph).findLast(({ id, data }) => id === text || data.name === text)
  if (!found) throw new NotFound('snapshot', text)
  return found.data.revision
}
