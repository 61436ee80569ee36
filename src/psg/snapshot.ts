import { isoNow } from '../protocol/clock.ts'
import { InvalidInput, NotFound, RevisionConflict, RuleViolation } from '../protocol/errors.ts'
import { anything, type Field, flag, text } from '../protocol/fields.ts'
import { problem } from '../protocol/problem.ts'
import type { Changes, CommitOptions, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { entriesOf, type JournalEntry } from './history.ts'
import { checkKnown } from './input.ts'
import { insist } from './insist.ts'
import { groupIn, ofKind } from './node.ts'
import { possible } from './possible.ts'
import { type Restoration, restoration, touchedBy } from './restore.ts'
import type { GraphState } from './state.ts'
import { changedBy, onceChecked, untouched } from './untouched.ts'

/** Gives the revision a name. Costs one small node: the past is in the journal anyway. */
export async function takeSnapshot(
  graph: ProjectGraph,
  name: string,
  options: CommitOptions & { readonly plan_id?: string },
): Promise<Node<'snapshot'>> {
  if (typeof name !== 'string' || name === '')
    throw new InvalidInput('snapshot', [problem('name', 'text', 'is not a name', name)])
  checkKnown('snapshot', options, { plan_id: anything })
  const snapshot_id = graph.clock.uuid()
  const { plan_id, ...commit } = options
  if (plan_id !== undefined) await graph.require('plan', plan_id)
  const taken = (): Changes => [
    {
      kind: 'node_add',
      node: 'snapshot',
      id: snapshot_id,
      data: {
        snapshot_id,
        name,
        revision: graph.revision,
        taken_at: isoNow(graph.clock),
        ...(plan_id !== undefined && { plan_id }),
      },
    },
  ]
  await insist(graph, taken, commit)
  return graph.get('snapshot', snapshot_id)!
}

export interface RestoreOptions extends CommitOptions {
  /** A revision, or the id or name of a snapshot. */
  readonly to: number | string
  /** Take back what this run did, and nothing else. Without it, everything since, which is refused while something runs. */
  readonly of?: string
  /** Only say what would be done. */
  readonly dryRun?: boolean
}

const MOST_ATTEMPTS = 5
const RUN: Field = { ...text, says: 'the id of a run', rule: 'text' }

/** Goes back by going forward: commits what undoes the chosen entries. Conflicts are listed and left alone. */
export async function restore(graph: ProjectGraph, options: RestoreOptions): Promise<Restoration> {
  checkKnown('restore', options, { to: anything, of: RUN, dryRun: flag })
  const { to, of, dryRun = false, ...commit } = options
  for (let attempt = 1; ; attempt++) {
    await graph.refresh()
    const revision = revisionOf(graph, to)
    if (of === undefined) refuseWhileRunning(graph.state)
    const chosen = ({ body }: JournalEntry) => of === undefined || body.run === of
    const { way, entries } = await findWay(graph, revision, chosen, commit)
    const head = entries.at(-1)?.revision ?? revision
    if (dryRun || way.changes.length === 0) return way
    const refuseIfOvertaken =
      of === undefined ? unlessWritten(graph, head) : await untouched(graph, head, changedBy(way.changes))
    try {
      await insist(graph, onceChecked(refuseIfOvertaken, way.changes), commit)
      return way
    } catch (error) {
      // Somebody wrote since the way back was found: it must be found anew, or it would overwrite them, or take away what they need by now.
      const isOvertaken = error instanceof RevisionConflict || (error instanceof RuleViolation && graph.revision > head)
      if (!isOvertaken || attempt === MOST_ATTEMPTS) throw error
    }
  }
}

/** Where all goes back, all that was written since goes with it. */
const unlessWritten = (graph: ProjectGraph, since: number) => () => {
  if (graph.revision !== since) throw new RevisionConflict(graph.id, since, graph.revision)
}

/** The way back to a revision from what the chosen entries did, and all entries since, from which it was found. */
export async function findWay(
  graph: ProjectGraph,
  revision: number,
  chosen: (entry: JournalEntry) => boolean,
  commit: CommitOptions,
): Promise<{ readonly way: Restoration; readonly entries: readonly JournalEntry[] }> {
  const entries: JournalEntry[] = []
  for await (const entry of entriesOf(graph, revision)) entries.push(entry)
  const touched = touchedBy(entries, chosen)
  const found = await graph.reading([], (state) => restoration(touched, state), groupsOf(touched.keys()))
  return { way: await possible(graph, found, commit), entries }
}

/** A context's snapshots, oldest first. */
export const snapshotsOf = ({ state }: ProjectGraph): readonly Node<'snapshot'>[] =>
  [...ofKind(state.nodesOf('-'), 'snapshot')].sort((a, b) => a.born - b.born)

function revisionOf(graph: ProjectGraph, to: number | string): number {
  if (typeof to === 'string') return snapshotOf(graph, to).data.revision
  if (Number.isSafeInteger(to) && to >= 0 && to <= graph.revision) return to
  throw new InvalidInput('restore', [
    problem('to', 'range', `is neither a revision from 0 to ${graph.revision} nor a snapshot`, to),
  ])
}

function snapshotOf(graph: ProjectGraph, idOrName: string): Node<'snapshot'> {
  const found = graph.get('snapshot', idOrName) ?? snapshotsOf(graph).findLast(({ data }) => data.name === idOrName)
  if (!found) throw new NotFound('snapshot', idOrName)
  return found
}

function refuseWhileRunning(state: GraphState): void {
  for (const { id, data, imported } of ofKind(state.nodes(), 'plan')) {
    if (data.status !== 'in_progress' || imported) continue
    throw new InvalidInput('restore', [
      {
        path: 'of',
        rule: 'nothing_runs',
        message: `is not given, but plan ${id} is running: name the run to take back, or wait until nothing runs`,
      },
    ])
  }
}

const groupsOf = (keys: Iterable<string>): readonly string[] => [...new Set([...keys].map(groupIn))]
