import type { Clock } from '../protocol/clock.ts'
import { eachOf, inParts } from '../protocol/each.ts'
import { Refused, TooLarge } from '../protocol/errors.ts'
import type { Digest } from '../protocol/json.ts'
import type { Turns } from '../protocol/turns.ts'
import type { Change, EventDraft, FileRecord, FindingRecord, NodeData } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { commitStill } from '../psg/insist.ts'
import { isKind } from '../psg/node.ts'
import type { Backend } from '../vsl/backend.ts'
import { type Finding, fileId, isSameShape } from './compare.ts'
import { type Observed, observe } from './observe.ts'
import type { Verdict } from './policy.ts'
import { room } from './room.ts'
import { Elsewhere, isUnreadable, type Root } from './root.ts'
import { type Known, MAKE_READABLE, textAt } from './scan.ts'
import { foldersOf, type Select } from './select.ts'

/** What everybody in this room works with: one graph, one folder, and what is known of the differences between them. */
export interface Desk {
  readonly graph: ProjectGraph
  readonly root: Root
  /** Replaced by every scan: the rules may have changed, and nobody is to see half of them. */
  select: Select
  readonly clock: Clock
  readonly keepBytes: number
  readonly verdictOn: (finding: Pick<FindingRecord, 'path' | 'what'>) => Verdict
  /** What the disk last showed where it is not what the graph has on record; `null` for nothing. */
  readonly seen: Map<string, Observed | null>
  /** The disagreements, by id. */
  readonly findings: Map<string, Finding>
  /** Deeds of ours that have begun and of whose end the store has not been told. */
  readonly begun: Set<string>
  /** Paths that an action is writing to: not looked at until it says what it did. */
  readonly held: Map<string, number>
  /** Who writes to the same paths does so one after the other. */
  readonly turn: Turns
}

/** Under this name we write, and by it we know our own entries again. */
export const ACTOR = 'drift'
const FILES = 'files'
export const FINDINGS = 'drift'
/** Files that are read or written at the same time: so many that a store can take what they hold in few transactions. */
export const AT_ONCE = 512
const MEMORY_BYTES = 32 * 1024 * 1024
/** A commit carries this many files: an entry stays far below what a store accepts. */
const PER_COMMIT = 500

export const believed = (desk: Desk, path: string): FileRecord | undefined => desk.graph.get('file', fileId(path))?.data

function* believedFiles(desk: Desk): Iterable<FileRecord> {
  for (const node of desk.graph.state.nodesOf(FILES)) if (isKind(node, 'file')) yield node.data
}

/** Findings about files; those about invariants stand beside them. */
export function* recorded({ graph }: Pick<Desk, 'graph'>): Iterable<FindingRecord> {
  for (const node of graph.state.nodesOf(FINDINGS))
    if (isKind(node, 'finding') && node.data.what !== 'invariant') yield node.data
}

/** What is known of the disk without looking at it. */
export function known(desk: Desk): Known {
  const [anything] = believedFiles(desk) // a folder's first scan need not ask for each of its paths
  return {
    get(path) {
      const seen = desk.seen.get(path)
      if (seen !== undefined) return seen ?? undefined
      const record = anything && believed(desk, path)
      // The graph has moved on without the disk: nothing that the disk's times could tell.
      return record?.agreed && isSameShape(record, record.agreed) ? record.agreed : undefined
    },
    *paths() {
      for (const { path } of believedFiles(desk)) yield path
      for (const path of desk.seen.keys()) if (!believed(desk, path)) yield path
    },
  }
}

function lastSeen(desk: Desk, path: string): Observed | undefined {
  const seen = desk.seen.get(path)
  return seen === undefined ? believed(desk, path)?.agreed : (seen ?? undefined)
}

/** Looks at a path; content that the graph does not have yet is stored. `thorough`: whatever its times say. */
export function observed(desk: Desk, path: string, thorough = false): Promise<Observed | undefined> {
  const last = lastSeen(desk, path)
  return observe(desk.root, path, {
    now: desk.clock.now,
    keepBytes: desk.keepBytes,
    async keep(bytes, digest) {
      return (last?.digest === digest && last.kept) || stored(desk.graph.store, bytes)
    },
    memory: inMemory,
    ...(last && !thorough && { known: last }),
  })
}
/** False when it is more than the store takes: then the digest is all that is known. */
export async function stored(store: Backend, bytes: Uint8Array): Promise<boolean> {
  try {
    await store.putBlob(bytes)
    return true
  } catch (error) {
    if (error instanceof TooLarge) return false
    throw error
  }
}

/** Shared by everybody who reads files in this process. */
export const inMemory = room(MEMORY_BYTES)

/** What lies at these paths, as far as they belong. What does not stand still, or cannot be read, is shown as something that nobody expects. */
export async function observedAt(
  desk: Desk,
  paths: readonly string[],
): Promise<ReadonlyMap<string, Observed | undefined>> {
  const found = new Map<string, Observed | undefined>()
  await eachOf(new Set(paths), AT_ONCE, async (path) => {
    await enterFolders(desk, path)
    if (!desk.select.hasFile(path)) return
    const there = await observed(desk, path).catch((error) => {
      if (error instanceof Elsewhere || isUnreadable(error.code)) return UNKNOWN
      throw error
    })
    found.set(path, there)
  })
  return found
}
const UNKNOWN: Observed = { type: 'other', size: 0, mode: 0, kept: false, mtime_ms: 0, ctime_ms: 0, ino: 0 }

export const contentOf = (desk: Desk, digest: Digest): Promise<Uint8Array | undefined> =>
  desk.graph.store.getBlob(digest)

/** Are the rules on the way to a path known? Reads those that are not. */
export async function enterFolders(desk: Desk, path: string): Promise<void> {
  for (const folder of ['', ...foldersOf(path)]) {
    if (desk.select.isEntered(folder) || !desk.select.hasFolder(folder)) continue
    const names = await desk.root.list(folder).then((entries) => entries.map(({ name }) => name), noRules(folder))
    await desk.select.enter(folder, new Set(names), (at) => textAt(desk.root, at).catch(noRules(at)))
  }
}

/** For a `catch`: where nothing is there are none; to go on without those that cannot be read would be to allow what they may forbid. */
const noRules = (at: string) => (cause: unknown) => {
  if (cause instanceof Elsewhere) return undefined
  throw new Refused(`the ignore rules in ${at} cannot be read`, MAKE_READABLE, { cause })
}

export interface CommitMore {
  readonly events?: readonly EventDraft[]
  readonly actor?: string
  readonly run?: string
}

/** Commits in our name what is decided by looking at the graph as it then is; nothing, if there is nothing left to do by then. */
export const commit = (desk: Desk, decide: () => readonly Change[], reason: string, more?: CommitMore): Promise<void> =>
  commitTo(desk.graph, [FILES, FINDINGS], decide, reason, more)

/** The same, with these groups in memory: somebody may have had the graph read anew. */
export async function commitTo(
  graph: ProjectGraph,
  groups: readonly string[],
  decide: () => readonly Change[],
  reason: string,
  { events = [], actor = ACTOR, run }: CommitMore = {},
): Promise<void> {
  await graph.reading([], () => undefined, groups)
  await commitStill(graph, decide, { actor, reason, events, ...(run !== undefined && { run }) })
}

export const load = ({ graph }: Desk): Promise<void> => graph.reading([], () => undefined, [FILES, FINDINGS])

export const inChunks = <T>(items: readonly T[]): Iterable<readonly T[]> => inParts(items, PER_COMMIT)

/** What makes a record the graph's belief about a path; `null`: that there is no file. */
export const believing = (desk: Desk, path: string, record: FileRecord | null): readonly Change[] =>
  becoming(desk, 'file', fileId(path), record)

/** What makes this the whole of a node: what it said before and no longer says is taken away. */
export function becoming<K extends 'file' | 'finding'>(
  { graph }: Pick<Desk, 'graph'>,
  node: K,
  id: string,
  data: NodeData[K] | null,
): readonly Change[] {
  const now = graph.get(node, id)?.data
  if (data === null) return now ? [{ kind: 'node_delete', node, id }] : []
  const revived = graph.state.tombstone(node, id) !== undefined
  if (!now) return [{ kind: 'node_add', node, id, ...(revived && { revived }), data } as Change]
  const gone = Object.keys(now).filter((field) => !(field in data))
  const set = { ...data, ...Object.fromEntries(gone.map((field) => [field, undefined])) }
  return [{ kind: 'node_update', node, id, set } as Change]
}
