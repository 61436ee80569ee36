import { type Digest, digestOfJson, isObject, type Json, type JsonObject } from '../protocol/json.ts'
import type { Change, FileRecord, FileShape } from '../psg/change.ts'
import type { Restoration } from '../psg/restore.ts'
import { byPath, fileId, isAs, isSameShape, isTracked, shapeOf } from './compare.ts'
import { type Compensation, compensation, type Done, type Effect, isMet, pathsIn } from './compensate.ts'
import type { Observed } from './observe.ts'
import { CHANGED, type Lying, rehearsed } from './rehearse.ts'

/** A file that goes back to what it was before the run; `null`: it was not there. */
export interface FileReturn {
  readonly path: string
  readonly now: FileShape | null
  readonly before: FileRecord | null
}

/** What is left as it is, and why. */
export interface Left {
  readonly what: 'file' | 'graph' | 'effect'
  /** A path, a node or an action. */
  readonly name: string
  readonly reason: string
}

/** The way back from a run, before anybody has gone it. */
export interface RollbackPlan extends Compensation {
  readonly files: readonly FileReturn[]
  /** Everything else in the graph that goes back. */
  readonly changes: readonly Change[]
  /** What somebody else changed since: it needs a decision. */
  readonly conflicts: readonly Left[]
  /** What cannot be undone. */
  readonly impossible: readonly Left[]
  /** Of all of it: an approval holds for this way back and for no other. */
  readonly digest: Digest
}

export interface RunFacts {
  /** What the graph says about going back to where the run began. */
  readonly restoration: Restoration
  readonly actions: readonly Done[]
  readonly believed: (id: string) => FileRecord | undefined
  /** The paths of the files that the graph has the run on record for, by id. */
  readonly wrote?: ReadonlyMap<string, string>
  /** Those of them whose content the graph has seen change by it, and so knows what was there before. */
  readonly changed?: ReadonlySet<string>
  /** The paths of the files that the graph believes in below a folder. */
  readonly below?: (folder: string) => readonly string[]
  /** What lies on the disk; nothing is known of a path that is missing here. */
  readonly observed: ReadonlyMap<string, Observed | undefined>
  /** The same of paths that nobody tracks, where files are taken back by the inverse of what wrote them. */
  readonly untracked?: ReadonlyMap<string, Lying>
}

export function rollbackPlan(facts: RunFacts): RollbackPlan {
  const { actions, observed, wrote = new Map(), changed = new Set(), untracked = new Map() } = facts
  const { free: possible, changes, conflicts, impossible } = wayOfGraph(facts)
  const byInverse = movedAmong(impossible, actions) // the action may have kept what the graph has not
  const free = possible.filter(({ path }) => !byInverse.has(path))
  // What the graph says nothing of any more is as it was: an inverse would only do it a second time, or to what others have made of it.
  const tracked = new Set([...wrote.values()].filter((path) => observed.has(path) && !byInverse.has(path)))
  const known = new Set([...free.map(({ path }) => path), ...conflicts.map(({ name }) => name)])
  for (const path of goneBackAlone(facts, tracked, known))
    conflicts.push({ what: 'file', name: path, reason: GRAPH_ALONE })
  const restored = new Set([...tracked, ...known])
  const isLeft = ({ cutOffAt: path }: Done) => path === undefined || !changed.has(path) || !restored.has(path)
  const [theirs, ours] = [new Map<string, Lying>(untracked), new Map(observed)]
  for (const path of byInverse) {
    const there = observed.get(path)
    if (ours.delete(path)) theirs.set(path, there && !isTracked(there) ? { reason: NO_FILE } : there)
  }
  const { effects: inverses, irreversible } = compensation(actions.filter(isLeft), (inverse) => {
    const paths = pathsIn(inverse)
    return (paths.length > 0 && paths.every((path) => restored.has(path))) || isMet(inverse, ours)
  })
  const { effects, refused } = rehearsed(inverses, theirs)
  for (const { path, reason } of refused) if (!known.has(path)) conflicts.push({ what: 'file', name: path, reason })
  // What is to be moved back, out of what is tracked, is nowhere else: it must not go before that is done.
  const [moved, moving] = [new Set(inverses.flatMap(movedFrom)), new Set(effects.flatMap(movedFrom))]
  const files = free.filter(({ path }) => !moved.has(path))
  for (const { path } of free)
    if (moved.has(path) && !moving.has(path)) conflicts.push({ what: 'file', name: path, reason: CANNOT_MOVE })
  const told = new Set([...effects.flatMap(({ inverse }) => pathsIn(inverse)), ...refused.map(({ path }) => path)])
  const left = impossible.filter(({ name }) => !told.has(name))
  const way = { files, changes, effects, irreversible, conflicts, impossible: left }
  return { ...way, digest: digestOfJson(JSON.parse(JSON.stringify(way)) as Json) }
}

/** These files, and those that were moved to where they are, or from there: what one was is where another is now. */
function movedAmong(files: readonly Left[], actions: readonly Done[]): ReadonlySet<string> {
  const among = new Set(files.map(({ name }) => name))
  const moves = actions.map(({ action: { inverse } }) => (isObject(inverse) ? pathsIn(inverse) : []))
  for (let before = -1; before !== among.size; ) {
    before = among.size
    for (const paths of moves) if (paths.some((path) => among.has(path))) for (const path of paths) among.add(path)
  }
  return among
}

interface WayOfGraph {
  /** Files that go back, with nothing in their way. */
  readonly free: readonly FileReturn[]
  readonly changes: readonly Change[]
  readonly conflicts: Left[]
  readonly impossible: readonly Left[]
}

/** What the graph says about going back, held against the disk. */
function wayOfGraph({ restoration, believed, wrote = new Map(), below = () => [], observed }: RunFacts): WayOfGraph {
  const possible: FileReturn[] = []
  const changes: Change[] = []
  const conflicts: Left[] = restoration.conflicts.map(({ kind, id, message }) => ({
    what: kind === 'file' ? 'file' : 'graph',
    name: kind === 'file' ? (believed(id)?.path ?? wrote.get(id) ?? id) : `${kind}/${id}`,
    reason: message,
  }))
  const impossible: Left[] = []
  for (const change of restoration.changes) {
    const back = fileChange(change, believed)
    if (!back) {
      changes.push(change)
      continue
    }
    const { path, now, before } = back
    if (now && before && isSameShape(now, before)) {
      // Back already, or written as it was: then only the run's name goes, or it would stand in the way of those who wrote before it.
      const { written_by } = before
      if (written_by !== now.written_by) changes.push(authorship(fileId(path), written_by))
      continue
    }
    const there = observed.get(path)
    const reason = observed.has(path) ? obstacle(back, there) : NOT_TRACKED
    if (reason === undefined) possible.push({ path, now: there ? shapeOf(there) : null, before })
    else if (reason === NOT_KEPT || reason === LOST) impossible.push({ what: 'file', name: path, reason })
    else conflicts.push({ what: 'file', name: path, reason })
  }
  const going = new Set(possible.filter(({ before }) => before === null).map(({ path }) => path))
  const isInTheWay = ({ path, now }: FileReturn) =>
    now?.type === 'folder' && below(path).some((inside) => !going.has(inside))
  const free = possible.filter((file) => !isInTheWay(file))
  for (const { path } of possible.filter(isInTheWay)) conflicts.push({ what: 'file', name: path, reason: CHANGED })
  return { free, changes, conflicts, impossible }
}

/** Paths where the disk is still as an action left it, while the graph believes in something else again. */
const goneBackAlone = (
  { actions, observed, believed }: RunFacts,
  tracked: ReadonlySet<string>,
  known: ReadonlySet<string>,
): readonly string[] =>
  [...new Set(actions.flatMap((done) => leftAsIs(done, observed)))].filter(
    (path) => tracked.has(path) && !known.has(path) && !isAs(observed.get(path), believed(fileId(path))),
  )

export const isEmpty = ({ files, changes, effects }: RollbackPlan): boolean =>
  files.length + changes.length + effects.length === 0

/** So many files go back in one commit, which then stays far below what a store accepts. */
const PER_COMMIT = 500

/**
 * The files that go back next, of those that were not tried yet. What is to go makes room for what is to come, and goes before the folder it is in;
 * what comes follows its folder.
 */
export function portionOf(
  files: readonly FileReturn[],
  tried: ReadonlySet<string>,
): { readonly portion: readonly FileReturn[]; readonly isLast: boolean } {
  const left = files.filter(({ path }) => !tried.has(path))
  if (left.length <= PER_COMMIT) return { portion: left, isLast: true }
  const sorted = left.toSorted(byPath)
  const going = sorted.filter(({ before }) => before === null).reverse()
  const coming = sorted.filter(({ before }) => before !== null)
  return { portion: [...going, ...coming].slice(0, PER_COMMIT), isLast: false }
}

const NOT_KEPT = 'its content was too large to be kept'
const LOST = 'what lies there is too large to be kept, and would be lost'
const NO_FILE = 'what lies there is no file'
const NOT_TRACKED = 'it is kept out of what is tracked by now'

const CANNOT_MOVE = 'it cannot be moved back to where it was'
const GRAPH_ALONE = 'the graph has gone back without it: settle what drift has found there'

/** The path of the file that lies there as an action left it. */
function leftAsIs({ action: { inverse } }: Done, observed: RunFacts['observed']): readonly string[] {
  const [path] = isObject(inverse) ? pathsIn(inverse) : []
  if (path === undefined) return []
  const { expected_digest } = (inverse as JsonObject).params as JsonObject
  return expected_digest === (observed.get(path)?.digest ?? null) ? [path] : []
}

const movedFrom = ({ inverse }: Effect): readonly string[] => {
  const [path, to] = pathsIn(inverse)
  return to === undefined ? [] : [path!]
}

interface FileChange {
  readonly path: string
  readonly now: FileRecord | undefined
  readonly before: FileRecord | null
}

/** The file that a change of the graph is about, as it is believed now and as it will be. */
function fileChange(change: Change, believed: RunFacts['believed']): FileChange | undefined {
  if (!('node' in change) || change.node !== 'file') return undefined
  const now = believed(change.id)
  if (change.kind === 'node_add') {
    const before = change.data as FileRecord
    return { path: before.path, now, before }
  }
  if (!now) return undefined
  if (change.kind === 'node_delete') return { path: now.path, now, before: null }
  const fields = Object.entries({ ...now, ...change.set }).filter(([, value]) => value !== undefined)
  return { path: now.path, now, before: Object.fromEntries(fields) as unknown as FileRecord }
}

const authorship = (id: string, written_by: string | undefined): Change =>
  ({ kind: 'node_update', node: 'file', id, set: { written_by } }) as Change

/** Why a file is left as it is. */
function obstacle({ now, before }: FileChange, there: Observed | undefined): string | undefined {
  if (isAs(there, before)) return undefined // the disk is back already
  const isFolder = !now && there?.type === 'folder' // of files that have come below it: it gives way once they have gone
  if (!isFolder && !isAs(there, now ?? null)) return CHANGED
  if (before?.digest === there?.digest) return undefined
  if (before && !before.kept) return NOT_KEPT
  return isTracked(there) && !there.kept ? LOST : undefined
}
