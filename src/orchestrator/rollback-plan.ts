import type { ActionLayer } from '../ael/layer.ts'
import { type Done, pathsIn } from '../drift/compensate.ts'
import type { Lying } from '../drift/rehearse.ts'
import { type RollbackPlan, type RunFacts, rollbackPlan } from '../drift/rollback.ts'
import type { Tracker } from '../drift/tracker.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { ActionRecord, Change, FileRecord, Node, Run, Stored } from '../psg/change.ts'
import { isFieldChange } from '../psg/field-change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { JournalEntry } from '../psg/history.ts'
import { ofKind, placeOf } from '../psg/node.ts'
import { findWay } from '../psg/snapshot.ts'
import type { GraphState } from '../psg/state.ts'
import { allDone } from './acted.ts'

export interface RollbackParts {
  readonly graph: ProjectGraph
  readonly layer: ActionLayer
  /** Whose files go back with the graph. Without it a file is taken back like any other effect, by the inverse of what wrote it. */
  readonly tracker?: Tracker
}

/** A plan, and the revision that it was made at. */
export type Planned = RollbackPlan & { readonly revision: number }

/** What there is to take back now, given what has been taken back already. */
export async function planFor(parts: RollbackParts, run: Node<'run'>): Promise<Planned> {
  const { graph, tracker } = parts
  await graph.refresh()
  const { revision } = graph // before anything is read: whatever is written while we look has the way back planned anew
  const by = { actor: 'rollback', reason: 'what would be taken back?' }
  const line = new Map((await lineOf(graph, run)).map(({ id, born }) => [id, born]))
  const isTheirs = ({ revision, body }: JournalEntry) => revision > (line.get(body.run ?? '') ?? revision)
  const { way: restoration, entries } = await findWay(graph, Math.min(...line.values()), isTheirs, by)
  const ours = restoration.changes.filter((change) => tracker !== undefined || !isFileChange(change))
  const actions = await graph.reading([['plan', run.data.plan_id]], (state) =>
    [...ofKind(state.nodesOf(run.group), 'action')].flatMap(({ data }) =>
      allDone(data).map((done): Done => ({ ...done, ...cutOffAt(state, done.action) })),
    ),
  )
  const written = actions.flatMap(({ action: { inverse }, cutOffAt }) =>
    isObject(inverse) ? pathsIn(inverse) : (cutOffAt ?? []),
  )
  const paths = [...ours.flatMap((change) => pathOf(graph, change) ?? []), ...written]
  const observed = (await tracker?.observed(paths)) ?? new Map()
  const plan = rollbackPlan({
    restoration: { ...restoration, changes: ours },
    actions,
    believed: (id) => graph.get('file', id)?.data,
    ...wroteIn(entries.filter(isTheirs)),
    below: (folder) =>
      [...ofKind(graph.state.nodesOf('files'), 'file')]
        .map(({ data }) => data.path)
        .filter((path) => path.startsWith(`${folder}/`)),
    observed,
    untracked: await untracked(parts, actions, observed),
  })
  return { ...plan, revision }
}

/** A run, and those that it goes on from: what they did to files and graph is behind what it has taken over. */
export async function lineOf(graph: ProjectGraph, run: Node<'run'>): Promise<readonly Node<'run'>[]> {
  const line: Node<'run'>[] = []
  for (let one: Node<'run'> | undefined = run; one; ) {
    line.push(one)
    const { rerun_of }: Run = one.data
    one = rerun_of === undefined ? undefined : await graph.find('run', rerun_of)
  }
  return line
}

/** What lies where files would be taken back that nobody tracks, so that what is planned is what will be done. */
async function untracked(
  { layer }: RollbackParts,
  actions: readonly Done[],
  observed: ReadonlyMap<string, unknown>,
): Promise<ReadonlyMap<string, Lying>> {
  const disk = new Map<string, Lying>()
  for (const { action } of actions) {
    const { inverse } = action
    const paths = isObject(inverse) ? pathsIn(inverse) : []
    if (paths.every((path) => observed.has(path) || disk.has(path))) continue
    const { action_type, params } = inverse as JsonObject
    const asked = { action_type: String(action_type), params: params as JsonObject }
    const found = await layer.found(asked).catch((error: Error) => paths.map(() => ({ reason: error.message })))
    for (const [i, path] of found ? paths.entries() : []) disk.set(path, found![i])
  }
  return disk
}

/** The files that these have changed and the graph was told of, by id; and those of them that are another since, or gone. */
function wroteIn(entries: readonly JournalEntry[]): Required<Pick<RunFacts, 'wrote' | 'changed'>> {
  const wrote = new Map<string, string>()
  const changed = new Set<string>()
  for (const { body } of entries)
    for (const change of body.changes) {
      const { kind, id } = placeOf(change.key)
      if (kind !== 'file' || isFieldChange(change)) continue
      const { before, after } = change
      const path = String((after ?? before)?.data.path)
      wrote.set(id, path)
      if (!isAlike(before, after)) changed.add(path)
    }
  return { wrote, changed }
}

/** Of what lies at a path, as the graph has it. */
const isAlike = (one: Stored | undefined, other: Stored | undefined): boolean =>
  one?.deleted === other?.deleted && one?.data.digest === other?.data.digest && one?.data.mode === other?.data.mode

/** Only the adapter's own word: whoever says of a step that it cannot be undone may mean more than the file. */
function cutOffAt(state: GraphState, { step_id, inverse, output }: ActionRecord): Pick<Done, 'cutOffAt'> {
  if (inverse !== 'irreversible' || !isObject(output) || output.repeated !== true) return {}
  for (const { data } of ofKind(state.referrers('step', step_id, 'BINDS'), 'binding'))
    if (data.action_type === 'file_operation' && data.inverse === undefined) return { cutOffAt: String(output.path) }
  return {}
}

const isFileChange = (change: Change): boolean => 'node' in change && change.node === 'file'

function pathOf(graph: ProjectGraph, change: Change): string | undefined {
  if (!('node' in change) || change.node !== 'file') return undefined
  const data = change.kind === 'node_add' ? (change.data as FileRecord) : graph.get('file', change.id)?.data
  return data?.path
}
