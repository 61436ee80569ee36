import { microsOf } from '../protocol/clock.ts'
import { type Json, type JsonObject, roughBytes } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { AnyNode, EntryBody, EntryChange, Kind, Stored } from './change.ts'
import type { Draft } from './check.ts'
import type { Delta } from './delta.ts'
import { endedGroups } from './ended.ts'
import { isFieldChange } from './field-change.ts'
import { stepOfFirst } from './first-action.ts'
import { type GraphMemory, graphMemory } from './graph-memory.ts'
import { entriesOf, type JournalEntry } from './history.ts'
import { INDEX, lifeOf, type Whereabouts, type Written } from './indexes.ts'
import { KINDS } from './kinds.ts'
import {
  applyEntry,
  foldInto,
  type GroupValues,
  groupHasEnded,
  groupsBegunIn,
  readGroup,
  readKinds,
  readRevision,
  takeGroup,
  type Values,
} from './load.ts'
import { fromStored, groupIn, placeOf, toStored } from './node.ts'
import type { GraphState } from './state.ts'
import { nodeLeft, Trail } from './trail.ts'
import { trimmedAt, trimmedKey } from './trimmed.ts'

/** Kinds with ids. */
export type Names = readonly (readonly [Kind, string])[]

export interface WorkingCopyOptions {
  /** After how many commits that left their values to the journal one writes them. */
  readonly mostTrailing: number
  /** How many ended plans, dialogs, … stay in memory. */
  readonly keepEnded: number
  /** Called with every entry that is read from the journal, when it is in memory. */
  readonly onTaken: (entry: JournalEntry, deltas: readonly Delta[]) => void
  /** Called when the store does not have this revision any more, and memory is what it tells now. Is it lost, or was all of the graph taken away? */
  readonly onSetBack: (revision: number, how: 'lost' | 'trimmed') => void
  readonly now: () => number
}

interface Behind {
  readonly known: readonly JournalEntry[]
  readonly news: readonly JournalEntry[]
}

/** An entry that leaves behind more than this is not read again only to know it. */
const MOST_KNOWN_BYTES = 64 * 1024
/** For so long it is believed that nobody has taken a graph away, begun it anew, and come as far. */
const LOOKED_MS = 1_000

/**
 * What of a graph is in memory: whole groups, all as they stand at one revision. More comes in from the store when it is asked for, and everything
 * that others have written with it. Its owner sees to it that one thing happens after the other.
 */
export class WorkingCopy {
  readonly id: string
  readonly store: Backend
  readonly trail: Trail
  readonly #onTaken: WorkingCopyOptions['onTaken']
  readonly #onSetBack: WorkingCopyOptions['onSetBack']
  readonly #now: WorkingCopyOptions['now']
  readonly #ended: ReturnType<typeof endedGroups>
  #memory: GraphMemory = graphMemory()
  #revision = 0
  /** The last stamp given out, in microseconds; unknown until somebody commits. */
  #stamped: number | undefined
  /** The commit that memory stands on, if it is known and small: what others have written must follow it. */
  #commit: string | undefined
  /** When all of it was last taken away, as far as memory knows; it may have been begun anew since. */
  #trimmedAt: string | undefined
  /** When memory was last known to be what the store tells. */
  #lookedAt: number

  constructor(store: Backend, id: string, { mostTrailing, keepEnded, onTaken, onSetBack, now }: WorkingCopyOptions) {
    this.trail = new Trail(id, mostTrailing)
    this.store = store
    this.id = id
    this.#ended = endedGroups(keepEnded)
    this.#onTaken = onTaken
    this.#onSetBack = onSetBack
    this.#now = now
    this.#lookedAt = now()
  }

  get revision(): number {
    return this.#revision
  }

  get state(): GraphState {
    return this.#memory.state
  }

  /** The stamp of the last entry, if it is known. */
  get stamped(): number | undefined {
    return this.#stamped
  }

  /** Was all of it taken away, and nothing begun anew? */
  get isGone(): boolean {
    return this.#revision === 0 && this.#trimmedAt !== undefined
  }

  /** The stamp of the last entry, from the journal. Not read when the graph is opened, because the entry may be large. */
  async readStamp(): Promise<number> {
    if (this.#revision === 0) return 0
    for await (const { body } of entriesOf(this, this.#revision - 1, this.#revision)) this.#stamped = microsOf(body.at)
    return this.#stamped ?? 0
  }

  /** A commit of ours has landed. */
  apply({ commit: { revision, body }, deltas, ranks, stamped, bytes }: Draft): void {
    this.#memory.apply(deltas, ranks)
    this.trail.follow(revision, body, deltas.map(nodeLeft), bytes)
    this.#moveTo(revision, deltas, stamped)
    this.#standOn(body, bytes)
  }

  /** Forgets memory and reads it anew. Until that is done, and if it fails, memory stays as it was. */
  async reload(): Promise<void> {
    if (this.#revision > 0) await this.catchUp() // whoever watches is told what it knows nothing of
    await this.#readAnew(this.#revision === 0 ? Number.POSITIVE_INFINITY : this.#revision)
  }

  /** What comes after `upTo` is told to whoever watches. */
  async #readAnew(upTo: number): Promise<void> {
    const revision = await readRevision(this.store, this.id)
    const { written, trimmed } = await this.#readWritten() // before any value: once one was read, those that trailed may be written and others trail
    const context = await readGroup(this.store, this.id, '-')
    const open = await Promise.all(context.open.map((group) => readGroup(this.store, this.id, group)))
    const entries = await this.#entriesAfter(Math.min(written ?? revision, revision))
    const known = entries.filter((entry) => entry.revision <= upTo)
    const groups = byName([context, ...open])
    const begun = groupsBegunIn(known).filter((group) => !groups.has(group))
    for (const group of begun) groups.set(group, new Map())
    foldInto(groups, known)
    const folded = new Map(groups)
    for (const group of begun) if (groupHasEnded(group, folded.get(group)!)) groups.delete(group)
    const memory = graphMemory()
    for (const [group, values] of groups) takeGroup(group, values, memory)

    const last = known.at(-1)
    this.#memory = memory
    this.#revision = last?.revision ?? revision
    this.#stamped = last && microsOf(last.body.at)
    this.#commit = last?.body.commit_id
    this.#trimmedAt = trimmed
    this.#lookedAt = this.#now()
    this.#ended.clear()
    this.trail.begin(written)
    for (const { revision: at, body } of known)
      this.trail.follow(at, body, body.changes.map(placeOfChange), elsewhere(body, folded))
    for (const key of this.trail.keys()) this.trail.weigh(bytesOf(folded.get(groupIn(key))?.get(key)))
    for (const group of groups.keys()) this.#noteLife(group)
    for (const entry of entries.slice(known.length)) this.#take(entry)
  }

  /** Takes in what others have committed. Where a store has lost what memory stands on, memory is read anew. */
  async catchUp(): Promise<void> {
    const { revision } = this
    if (this.#commit === undefined && (await this.setBackIfTrimmed())) return
    let stands = this.#commit === undefined
    for await (const entry of entriesOf(this, stands ? revision : revision - 1)) {
      if (entry.revision > revision) this.#take(entry)
      else if (!this.#isOurs(entry)) break
      else stands = true
    }
    if (!stands) await this.setBack()
    else if (this.#commit !== undefined) this.#lookedAt = this.#now()
  }

  /** An older copy was put in the store's place, as by a failover: what it holds counts, or memory would tell what never happened. */
  async setBack(): Promise<void> {
    const lost = this.#revision
    const how = this.#isTrimmedBy(await trimmedAt(this.store, this.id)) ? 'trimmed' : 'lost'
    await this.#readAnew(Number.POSITIVE_INFINITY)
    this.#onSetBack(lost, how)
  }

  /**
   * Was all of it taken away? It may have been begun anew since and have come as far, and neither a revision nor a commit that is not known tells the
   * two apart. Then memory is what the store tells now.
   */
  async setBackIfTrimmed(): Promise<boolean> {
    if (this.#revision === 0 || !this.#isTrimmedBy(await trimmedAt(this.store, this.id))) return false
    await this.setBack()
    return true
  }

  /** The same before a write without a fence, which would have told; not again at once, since most who write do so several times. */
  async setBackIfLongTrimmed(): Promise<void> {
    const now = this.#now()
    if (Math.abs(now - this.#lookedAt) <= LOOKED_MS) return
    await this.setBackIfTrimmed()
    this.#lookedAt = now
  }

  /**
   * Given when the graph was last taken away: was that after memory has read it? Whoever begins a graph does not look whether there was one before, so
   * a time that memory does not know counts only if it is later than the last commit.
   */
  #isTrimmedBy(at: string | undefined): boolean {
    if (at === this.#trimmedAt || at === undefined) return false
    return this.#trimmedAt !== undefined || this.#stamped === undefined || microsOf(at) > this.#stamped
  }

  /** Is all of it in memory? What has ended and is asked for stays a while longer. */
  holds(names: Names): boolean {
    let all = true
    for (const [kind, id] of names) {
      const there = this.state.get(kind, id)
      if (there) this.#ended.use(there.group)
      else all = false
    }
    return all
  }

  holdsGroups(groups: Iterable<string>): boolean {
    for (const group of groups) if (!this.state.hasGroup(group)) return false
    return true
  }

  /** Brings what is named into memory, as far as it exists: a group that is not loaded, or what others have written since. */
  async bring(names: Names): Promise<void> {
    if (this.holds(names)) return
    const absent = names.filter(([kind, id]) => !this.state.has(kind, id))
    const { revision } = this
    await this.load(await this.#groupsOf(absent))
    if (this.#revision === revision && absent.some((name) => !this.state.has(...name))) await this.catchUp()
  }

  /** Takes groups in as they stand at the head, and everything else with them: no picture mixes two revisions. */
  async load(groups: Iterable<string>): Promise<void> {
    const absent = [...new Set(groups)].filter((group) => !this.state.hasGroup(group))
    if (absent.length === 0) return
    const read = await Promise.all(absent.map((group) => readGroup(this.store, this.id, group)))
    const behind = await this.#behindValues(absent)
    if (!behind) return this.load(absent)
    foldInto(byName(read), behind.known)
    for (const { group, values } of read) takeGroup(group, values, this.#memory)
    for (const entry of behind.news) this.#take(entry)
    for (const group of absent) this.#noteLife(group)
  }

  /** What there is of these kinds in a group: as memory has it, or as it stands at the head. What is not in memory is not brought there. */
  async nodesOf(group: string, kinds: readonly Kind[]): Promise<readonly AnyNode[]> {
    if (this.state.hasGroup(group)) {
      this.#ended.use(group)
      return [...this.state.nodesOf(group)].filter(({ kind }) => kinds.includes(kind))
    }
    const values = await readKinds(this.store, this.id, group, kinds)
    const behind = await this.#behindValues([group])
    if (!behind) return this.nodesOf(group, kinds)
    foldInto(new Map([[group, values]]), [...behind.known, ...behind.news])
    for (const entry of behind.news) this.#take(entry)
    return [...values].flatMap(([key, value]) =>
      value.deleted || !kinds.includes(placeOf(key).kind) ? [] : [fromStored(key, value, group)],
    )
  }

  /**
   * The entries that values of these groups, read before, may not have taken on: those that memory knows, and those that it has yet to take. None when
   * the store was found to be set back: then the values have to be read again.
   */
  async #behindValues(groups: readonly string[]): Promise<Behind | undefined> {
    const span = this.trail.spanOf(groups)
    const isKnown = this.#commit !== undefined
    const head = isKnown ? this.#revision - 1 : this.#revision
    const isApart = span !== undefined && span.last < head // nothing between tells of these groups
    const entries = isApart ? await this.#entriesAfter(span.first - 1, span.last) : []
    entries.push(...(await this.#entriesAfter(isApart || !span ? head : Math.min(span.first - 1, head))))
    if (!isKnown && (await this.setBackIfTrimmed())) return undefined
    const known = entries.filter((entry) => entry.revision <= this.#revision)
    if (!isKnown || known.some((entry) => this.#isOurs(entry))) return { known, news: entries.slice(known.length) }
    await this.setBack()
    return undefined
  }

  /** What trails, as it now is; what is not in memory is not brought there, but as it is at the head. */
  async trailing(): Promise<readonly (readonly [string, Stored])[]> {
    const keys = this.trail.keys()
    const absent = new Map<string, Values>()
    for (const key of keys) {
      const group = groupIn(key)
      if (!this.state.hasGroup(group)) absent.set(group, new Map())
    }
    if (absent.size > 0) {
      const away = [...keys].filter((key) => absent.has(groupIn(key)))
      for (const [key, value] of await this.store.getMany(away)) absent.get(groupIn(key))!.set(key, value as Stored)
      foldInto(absent, await this.#entriesAfter(this.trail.from!))
    }
    return [...keys].map((key) => {
      const { group, kind, id } = placeOf(key)
      return [key, absent.get(group)?.get(key) ?? toStored(this.state.get(kind, id)!)]
    })
  }

  /** What has ended longest ago leaves memory. */
  evictSurplus(): void {
    for (const group of this.#ended.surplus()) this.#memory.evict(group)
  }

  /** The revision after which values trail behind the journal, if any do; and when the graph was last taken away. */
  async #readWritten(): Promise<{ readonly written: number | undefined; readonly trimmed: string | undefined }> {
    const [mark, trimmed] = [INDEX.written(this.id), trimmedKey(this.id)]
    const found = await this.store.getMany([mark, trimmed])
    return {
      written: (found.get(mark) as Written | undefined)?.revision,
      trimmed: (found.get(trimmed) as { readonly at: string } | undefined)?.at,
    }
  }

  async #entriesAfter(revision: number, upTo?: number): Promise<JournalEntry[]> {
    const entries: JournalEntry[] = []
    for await (const entry of entriesOf(this, revision, upTo)) entries.push(entry)
    return entries
  }

  #take(entry: JournalEntry): void {
    const { revision, body } = entry
    const deltas = applyEntry(body, this.#memory)
    let bytes = 0
    for (const change of body.changes) bytes += roughBytes(this.#leftBy(change))
    this.trail.follow(revision, body, body.changes.map(placeOfChange), bytes)
    this.#moveTo(revision, deltas, microsOf(body.at))
    this.#standOn(body, bytes)
    this.#onTaken(entry, deltas)
  }

  #standOn({ commit_id }: EntryBody, bytes: number): void {
    this.#commit = bytes <= MOST_KNOWN_BYTES ? commit_id : undefined
  }

  /** Is it the one that memory stands on? */
  #isOurs({ revision, body }: JournalEntry): boolean {
    return revision === this.#revision && body.commit_id === this.#commit
  }

  /** What a node says that was changed, as far as it is known: not all groups are in memory. */
  #leftBy(change: EntryChange): Json {
    const { kind, id } = placeOf(change.key)
    const node = this.state.get(kind, id)
    return node ? (node.data as unknown as Json) : toldOf(change)
  }

  #moveTo(revision: number, deltas: readonly Delta[], stamped: number): void {
    this.#revision = revision
    this.#stamped = stamped
    for (const delta of deltas) if (KINDS[delta.kind].root || delta.kind === 'run') this.#noteLife(groupOf(delta))
  }

  #noteLife(group: string): void {
    if (lifeOf(group, this.state, this.state.plan(group)?.activeRun).stage === 'ended') this.#ended.add(group)
    else this.#ended.delete(group)
  }

  /** The groups that nodes lie in, as far as the index knows. */
  async #groupsOf(names: Names): Promise<readonly string[]> {
    const groups = names.flatMap(([kind]) => KINDS[kind].group ?? [])
    const keys = names.flatMap(([kind, id]) => anchorsOf(kind, id).map((anchor) => INDEX.id(...anchor)))
    if (keys.length === 0) return groups
    const found = [...(await this.store.getMany([...new Set(keys)])).values()] as Whereabouts[]
    return [...groups, ...found.filter(({ graph }) => graph === this.id).map(({ group }) => group)]
  }
}

const byName = (groups: readonly GroupValues[]) => new Map(groups.map(({ group, values }) => [group, values]))

const placeOfChange = ({ key }: EntryChange) => placeOf(key)
const bytesOf = (value: Stored | undefined): number => (value ? roughBytes(value.data) : 0)
/** What a change says of the node that it leaves behind. */
const toldOf = (change: EntryChange): JsonObject | null =>
  isFieldChange(change) ? change.now : (change.after?.data ?? null)

/** What an entry tells of groups other than these. */
function elsewhere({ changes }: EntryBody, groups: ReadonlyMap<string, unknown>): number {
  let bytes = 0
  for (const change of changes) if (!groups.has(groupIn(change.key))) bytes += roughBytes(toldOf(change))
  return bytes
}

const groupOf = (delta: Delta): string => nodeLeft(delta).group

/** What the index may know that leads to a node: itself, or what it is a part of. */
function anchorsOf(kind: Kind, id: string): Names {
  if (kind === 'action')
    return [
      [kind, id],
      ['step', stepOfFirst(id)],
    ]
  if (KINDS[kind].indexed) return [[kind, id]]
  if (kind === 'segment_end') return [['segment', id]]
  const { partOf } = KINDS[kind]
  return partOf ? [[partOf, id.slice(0, id.lastIndexOf('/'))]] : []
}
