import { InvalidInput, NotFound } from '../protocol/errors.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { snapshotsOf } from '../psg/snapshot.ts'

/** A revision: its number, or the id or name of a snapshot; of two with one name the later. Throws NotFound, and InvalidInput for what is both. */
export function revisionOf(graph: ProjectGraph, text: string): number {
  const found = snapshotsOf(graph).findLast(({ id, data }) => id === text || data.name === text)
  if (/^\d+$/.test(text)) {
    if (found) throw ambiguous(text, found.id) // others than this command line may name it so
    return Number(text)
  }
  if (!found) throw new NotFound('snapshot', text)
  return found.data.revision
}

const ambiguous = (text: string, snapshot: string): InvalidInput =>
  new InvalidInput('the command line', [
    {
      path: text,
      rule: 'unique',
      message: `names a revision and a snapshot: give ${snapshot} for the snapshot, 0${text} for the revision`,
    },
  ])
