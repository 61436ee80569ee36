import { type Clock, systemClock } from '../protocol/clock.ts'
import {
  Corrupt,
  FencedOut,
  KeyExists,
  NotFound,
  OutcomeUnknown,
  RevisionConflict,
  RuleViolation,
  type Violation,
} from '../protocol/errors.ts'
import { method, needed, refuseUnlessFit } from '../protocol/fields.ts'
import { type Report, reporter, telling } from '../protocol/reporter.ts'
import type { Backend } from '../vsl/backend.ts'
import { serially } from '../vsl/serially.ts'
import { settleWrite } from '../vsl/settle.ts'
import type { Changes, Commit, CommitOptions, Kind, Node, NodeOf } from './change.ts'
import { type Draft, draft, type Ground, named, nextStamp, ruleBook } from './check.ts'
import { checkGraphOptions } from './check-options.ts'
import type { Delta } from './delta.ts'
import { type Document, type DocumentKind, type DocumentOptions, documentOf } from './document.ts'
import type { Finding } from './finding.ts'
import { forkPlan } from './fork.ts'
import { type Difference, diffOf, graphAt, historyOf, type JournalEntry, type Past } from './history.ts'
import { checkKinds, checkOptions, checkReading, checkSegment, takeIn, takeInEvents } from './input.ts'
import { KINDS } from './kinds.ts'
import { nodeKey, placeOf } from './node.ts'
import { type Page, type Query, queryStore } from './query.ts'
import type { Restoration } from './restore.ts'
import { type RestoreOptions, restore, takeSnapshot } from './snapshot.ts'
import type { GraphState } from './state.ts'
import { verifyGraph } from './verify.ts'
import { type Reason, reasonsFor } from './why.ts'
import { type Names, WorkingCopy } from './working-copy.ts'

export interface GraphOptions {
  readonly clock?: Clock
  /** Told in events as project_id. */
  readonly project_id?: string
  /** How many ended plans, dialogs, … stay in memory. */
  readonly keepEnded?: number
  /**
   * After how many commits the values that the journal tells are written out, or earlier when there are many or large ones. With fewer a graph is
   * opened sooner, with more each commit costs less; with 0 every commit writes its own. 1,024 when absent, but 0 in a store that people read.
   */
  readonly mostTrailing?: number
  /** Strict mode: a role that this does not know is an error. */
  readonly roles?: Roles
  /** Called with every commit of this process as soon as it is in memory, in order. */
  readonly onCommit?: (commit: Commit) => void
  /** Told what `onCommit` or a watcher throws, and Corrupt when the store has lost what it had acknowledged; a warning of the process when absent. */
  readonly onError?: (error: unknown) => void
  /** Ids of rules, arrows and events to switch over; for proofs. */
  readonly switched?: ReadonlySet<string>
}

/** Whom role fields may name. */
export interface Roles {
  has(idOrName: string): boolean
  /** Takes in what others have added; false when there was nothing. */
  refresh(): Promise<boolean>
}

/** Changes, or the function that decides on them by looking at the graph as it then is. */
export type Wanted = Changes | (() => Changes)

/** A write that got no reply, and what it was made from. */
interface Pending {
  readonly drafted: Draft
  readonly wanted: Wanted
}

const WATCHER = { watcher: needed(method) }
const MOST_ATTEMPTS = 5
const KEEP_ENDED = 16
const MOST_TRAILING = 1_024

/** Opens a graph as it stands in the store: its context and what has not ended; the rest comes when it is asked for. */
export async function openGraph(store: Backend, id: string, options: GraphOptions = {}): Promise<ProjectGraph> {
  const graph = newGraph(store, id, options)
  await graph.reload()
  return graph
}

/** A graph that is thought to be new: nothing is read, and if somebody has written there, the first commit finds out. */
export const newGraph = (store: Backend, id: string, options: GraphOptions): ProjectGraph =>
  new ProjectGraph(store, id, options)

/** One context and everything in it. Reads are of memory; `find` and `reading` bring in what is not there. */
export class ProjectGraph {
  readonly id: string
  readonly store: Backend
  readonly clock: Clock
  readonly #options: GraphOptions
  readonly #onError: Report
  readonly #onCommit: ((commit: Commit) => void) | undefined
  readonly #rules
  readonly #copy: WorkingCopy
  readonly #inTurn = serially()
  readonly #watchers = new Set<(deltas: readonly Delta[]) => void>()
  /** A write that got no reply: nothing else is let in before its fate is known. */
  #pending: Pending | undefined
  /** Commits that turned out to have landed after their callers had been told that nobody knows. */
  readonly #late = new WeakMap<Wanted, Commit>()
  #setBacks = 0

  constructor(store: Backend, id: string, options: GraphOptions) {
    checkSegment('id', id)
    checkGraphOptions(store, options)
    this.id = id
    this.store = store
    this.clock = options.clock ?? systemClock
    this.#options = options
    this.#onError = reporter(options.onError)
    this.#onCommit = options.onCommit && telling(options.onCommit, this.#onError)
    this.#rules = ruleBook(options.switched)
    this.#copy = new WorkingCopy(store, id, {
      keepEnded: options.keepEnded ?? KEEP_ENDED,
      mostTrailing: options.mostTrailing ?? (store.traits.legible ? 0 : MOST_TRAILING),
      onTaken: (entry, deltas) => this.#taken(entry, deltas),
      onSetBack: (revision, how) => this.#setBack(revision, how),
      now: () => this.clock.now(),
    })
  }

  get revision(): number {
    return this.#copy.revision
  }

  /** The time by which a commit made now is judged, as far as the last one is known. */
  get now(): number {
    return nextStamp({ clock: this.clock, stamped: this.#copy.stamped ?? 0 }) / 1000
  }

  /**
   * How often the store was found to have lost what was committed, as after a failover to an older copy or once the context was taken away. Whatever was
   * decided by the state before that has to be decided anew.
   */
  get setBacks(): number {
    return this.#setBacks
  }

  /** The graph in memory, for questions. Ask for it anew after waiting for anything: reloading replaces it. */
  get state(): GraphState {
    return this.#copy.state
  }

  /** What is in memory under this id. */
  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined {
    return this.state.get(kind, id)
  }

  /** The same, loading it if need be. */
  async find<K extends Kind>(kind: K, id: string): Promise<NodeOf<K> | undefined> {
    return this.get(kind, id) ?? this.reading([[kind, id]], (state) => state.get(kind, id))
  }

  async require<K extends Kind>(kind: K, id: string): Promise<NodeOf<K>> {
    const node = await this.find(kind, id)
    if (!node) throw new NotFound(kind, id)
    return node
  }

  /**
   * Looks at the graph with these nodes in memory, and all that is loaded with them, as far as they exist; and with these groups. Nothing changes
   * while `look` looks.
   */
  async reading<T>(names: Names, look: (state: GraphState) => T, groups: readonly string[] = []): Promise<T> {
    checkReading(names, look, groups)
    return this.#serially(async () => {
      await this.#copy.bring(names)
      await this.#copy.load(groups)
      return look(this.state)
    })
  }

  /** Brings a group into memory: an ended plan, the files. An ended one may leave it again when others come. */
  async load(group: string): Promise<void> {
    return this.reading([], () => undefined, [group])
  }

  /** What there is of these kinds in a group. One that has ended is not brought into memory for it: a plan of thousands of steps may be asked for its title. */
  async nodesOf<K extends Kind>(group: string, kinds: readonly K[]): Promise<readonly NodeOf<K>[]> {
    checkKinds(group, kinds)
    return this.#serially(() => this.#copy.nodesOf(group, kinds)) as Promise<readonly NodeOf<K>[]>
  }

  /**
   * The only way in. Changes land together or not at all, one commit at a time; given as a function, they are decided anew when others have
   * written meanwhile. Throws RuleViolation or InvalidInput when they break a rule, FencedOut when somebody else owns the graph, RevisionConflict
   * when others kept writing first, Unavailable: then nothing changed. Throws OutcomeUnknown when the store stayed silent: the same call with the
   * same changes tells what became of them, and no other change gets in before.
   */
  async commit(changes: Wanted, options: CommitOptions): Promise<Commit> {
    checkOptions(options)
    const given = alike(options)
    const decide = decider(changes)
    return await this.#serially(async () => {
      if (this.#pending) await this.#settle(this.#pending, changes)
      const late = this.#late.get(changes)
      if (late) return late
      for (let attempt = 1; ; attempt++) {
        const tried = this.revision
        const drafted = await this.#draft(decide, given) // refuses before anything moved
        const landed = drafted && (await this.#store(drafted, changes)) // durable first; false: somebody wrote before us
        if (landed) return this.#apply(drafted) // cannot fail: draft checked it
        await this.#copy.catchUp() // read what they wrote, then decide again
        if (attempt === MOST_ATTEMPTS) throw new RevisionConflict(this.id, tried, this.revision)
      }
    })
  }

  /** Would these changes be accepted now? Throws what `commit` would, and writes nothing. */
  async check(changes: Wanted, options: CommitOptions): Promise<void> {
    checkOptions(options)
    const decide = decider(changes)
    return this.#serially(async () => {
      if (this.#pending) await this.#settle(this.#pending, changes)
      for (let attempt = 1; ; attempt++) {
        const tried = this.revision
        const drafted = await this.#draft(decide, options)
        const inUse = drafted && (await this.#idsInUse(drafted))
        if (inUse) throw inUse
        if (drafted) return
        if (attempt === MOST_ATTEMPTS) throw new RevisionConflict(this.id, tried, this.revision)
      }
    })
  }

  /** The L1 document of an object, put together from its nodes. Throws NotFound. */
  document<K extends DocumentKind>(kind: K, id: string, options?: DocumentOptions): Promise<Document<K>> {
    return documentOf(this, kind, id, options)
  }

  /** Every change of a node, with who and why, oldest first. */
  async history(kind: Kind, id: string): Promise<readonly Past[]> {
    const born = (state: GraphState) => (state.get(kind, id) ?? state.tombstone(kind, id))?.born
    return historyOf(this, kind, id, await this.reading([[kind, id]], born))
  }

  /** The chain that led to a node, from the context down. */
  why(kind: Kind, id: string): Promise<readonly Reason[]> {
    return reasonsFor(this, kind, id)
  }

  /** Nodes of a kind with these fields, in memory or not, page by page. */
  async query<K extends Kind>(query: Query<K>): Promise<Page<K>> {
    const trailing = await this.#serially(async () => {
      await this.#copy.catchUp()
      return this.#copy.trailing()
    })
    return queryStore(this.store, this.id, query, trailing) // not in turn: it may take long, and commits must not wait for it
  }

  /** The graph as it was at a revision. */
  at(revision: number): Promise<GraphState> {
    return graphAt(this, revision)
  }

  /** What differs between two revisions. */
  diff(from: number, to: number): Promise<readonly Difference[]> {
    return diffOf(this, from, to)
  }

  snapshot(name: string, options: CommitOptions & { readonly plan_id?: string }): Promise<Node<'snapshot'>> {
    return takeSnapshot(this, name, options)
  }

  restore(options: RestoreOptions): Promise<Restoration> {
    return restore(this, options)
  }

  /** A new draft with the plan's content. */
  fork(plan: string, options: CommitOptions): Promise<Node<'plan'>> {
    return forkPlan(this, plan, options)
  }

  /** Proves the graph from the store alone; an empty list is the proof. */
  verify(): Promise<readonly Finding[]> {
    return this.#serially(() => verifyGraph(this.store, this.id))
  }

  /** Calls back with what others have committed, when it is taken in. Returns the way to stop. */
  watch(watcher: (deltas: readonly Delta[]) => void): () => void {
    refuseUnlessFit('watcher', { watcher }, WATCHER)
    const told = telling(watcher, this.#onError) // its own fault: neither the graph nor another watcher suffers
    this.#watchers.add(told)
    return () => void this.#watchers.delete(told)
  }

  /** Takes in what others have committed. */
  refresh(): Promise<void> {
    return this.#serially(() => this.#copy.catchUp())
  }

  /** Forgets memory and reads it anew. Until that is done, and if it fails, memory stays as it was. */
  reload(): Promise<void> {
    return this.#serially(() => this.#copy.reload())
  }

  /** What the changes come to; `undefined` when they break a rule, but in a picture that others have changed since. */
  async #draft(decide: () => Changes, options: CommitOptions): Promise<Draft | undefined> {
    const copy = this.#copy
    if (options.fence === undefined) await copy.setBackIfLongTrimmed()
    const changes = await this.#decided(decide, options.reads)
    const stamped = copy.stamped ?? (await copy.readStamp())
    const due = copy.trail.accepts(changes) ? undefined : await copy.trailing()
    try {
      const drafted = draft(this.#ground(stamped, due), changes, options)
      if (due || copy.trail.bears(drafted.bytes)) return drafted
      return draft(this.#ground(stamped, await copy.trailing()), changes, options)
    } catch (error) {
      if (!(error instanceof RuleViolation) || !(await this.#hasNews(error))) throw error
      return undefined
    }
  }

  /** What is wanted, with all that it names in memory; decided anew when what others have written came in with that. */
  async #decided(decide: () => Changes, reads: Names | undefined): Promise<Changes> {
    const copy = this.#copy
    for (;;) {
      if (reads && !copy.holds(reads)) await copy.bring(reads)
      const { revision, setBacks } = this
      const changes = decide()
      if (copy.isGone && !changes.some((change) => change.kind === 'node_add' && change.node === 'context'))
        throw new NotFound('context', this.id)
      const names = named(changes)
      if (!copy.holds(names)) await copy.bring(names)
      const groups = groupsIn(changes)
      if (!copy.holdsGroups(groups)) await copy.load(groups)
      if (this.revision === revision && this.setBacks === setBacks) return changes
    }
  }

  /** Has anybody written what a refusal did not know of? It is in memory afterwards. */
  async #hasNews({ violations }: RuleViolation): Promise<boolean> {
    const { roles } = this.#options
    const { revision, setBacks } = this
    await this.#copy.catchUp()
    const newRoles = roles && violations.some(({ rule }) => rule === 'reference.role') && (await roles.refresh())
    return newRoles || this.revision !== revision || this.setBacks !== setBacks
  }

  #ground(stamped: number, due: Ground['due']): Ground {
    const { project_id, roles } = this.#options
    return {
      graph: this.id,
      state: this.state,
      revision: this.revision,
      stamped,
      clock: this.clock,
      rules: this.#rules,
      trailsFrom: this.#copy.trail.from,
      due,
      ...(project_id !== undefined && { project_id }),
      ...(roles && { knowsRole: roles.has }),
    }
  }

  /** Learns what became of a write without a reply by submitting it again. Throws while nobody can tell: then nothing else gets in. */
  async #settle(pending: Pending, wanted: Wanted): Promise<void> {
    try {
      await settleWrite(this.store, pending.drafted.write, { clock: this.clock })
      const known = this.revision >= pending.drafted.commit.revision // reloading found it first
      this.#landed(pending, known ? pending.drafted.commit : this.#apply(pending.drafted))
    } catch (error) {
      const isRefused = error instanceof RevisionConflict || error instanceof FencedOut || error instanceof KeyExists
      if (isRefused) this.#pending = undefined
      else if (error instanceof OutcomeUnknown || pending.wanted !== wanted) throw error
      else throw new OutcomeUnknown(this.id, { cause: error })
    }
  }

  #landed({ wanted }: Pending, commit: Commit): void {
    this.#late.set(wanted, commit)
    this.#pending = undefined
  }

  async #store(drafted: Draft, wanted: Wanted): Promise<boolean> {
    try {
      await settleWrite(this.store, drafted.write, { clock: this.clock })
      return true
    } catch (error) {
      if (error instanceof RevisionConflict) {
        if (error.actual < this.revision) await this.#copy.setBack()
        return false
      }
      if (error instanceof OutcomeUnknown) this.#pending = { drafted, wanted }
      if (error instanceof KeyExists) throw (await this.#idsInUse(drafted)) ?? error
      throw error
    }
  }

  /** Which of a draft's ids are taken, in this context or another. */
  async #idsInUse({ write }: Draft): Promise<RuleViolation | undefined> {
    const there = await this.store.getMany(write.inserts.map(([key]) => key))
    const violations = new Map<string, Violation>()
    for (const key of there.keys()) {
      const { kind, id } = placeOf(key.startsWith('id/') ? `/${key}` : key)
      const node = nodeKey(kind, id)
      violations.set(node, { rule: 'id.unique', node, path: '', message: `${kind} ${id} exists already` })
    }
    return violations.size > 0 ? new RuleViolation(this.id, [...violations.values()]) : undefined
  }

  #apply(drafted: Draft): Commit {
    this.#copy.apply(drafted)
    this.#onCommit?.(drafted.commit)
    return drafted.commit
  }

  /** An entry was read from the journal and is in memory. */
  #taken({ revision, body }: JournalEntry, deltas: readonly Delta[]): void {
    const pending = this.#pending
    if (pending?.drafted.commit.revision === revision) {
      this.#pending = undefined // its place is taken: by itself, or for good by another
      if (pending.drafted.commit.body.commit_id === body.commit_id)
        this.#landed(pending, { graph: this.id, revision, body })
    }
    this.#tell(deltas)
  }

  #tell(deltas: readonly Delta[]): void {
    for (const watcher of this.#watchers) watcher(deltas)
  }

  #setBack(revision: number, how: 'lost' | 'trimmed'): void {
    this.#setBacks++
    if (how === 'lost')
      this.#onError(
        new Corrupt(
          `the journal of ${this.id}, of which the store has lost revision ${revision} that it had acknowledged,`,
          'an older copy of the store was put in its place, as by a failover: its runs go on as they stand in it, and what they did since is done again',
        ),
      )
    this.#tell([])
  }

  /** One thing after the other. What has ended longest ago leaves memory between two of them, never during one. */
  #serially<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(() => {
      this.#copy.evictSurplus()
      return work()
    })
  }
}

/** Groups that no name in the changes leads to: those they say themselves, and those that a kind is always kept in. */
function groupsIn(changes: Changes): readonly string[] {
  const groups: string[] = []
  for (const change of changes) {
    const group = change.kind === 'node_add' ? (change.group ?? KINDS[change.node].group) : undefined
    if (group !== undefined) groups.push(group)
  }
  return groups
}

/** Options with every member, and events that their giver can no longer change: those of one make are read without a search. */
function alike({ actor, reason, fence, module, run, termination, events, reads }: CommitOptions) {
  const told = takeInEvents(events)
  return { actor, reason, fence, module, run, termination, events: told, reads } as CommitOptions
}

/** Changes are copied at once, before their caller can change them; a function is asked when its turn has come. */
function decider(wanted: Wanted): () => Changes {
  if (typeof wanted === 'function') return () => takeIn(wanted())
  const changes = takeIn(wanted)
  return () => changes
}
