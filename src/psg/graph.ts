import { type Clock, systemClock } from '../protocol/clock.ts'
import { FencedOut, KeyExists, NotFound, RevisionConflict, RuleViolation } from '../protocol/errors.ts'
import type { Backend } from '../vsl/backend.ts'
import { commitOnce } from '../vsl/settle.ts'
import type { Changes, Commit, CommitOptions, EntryBody, Kind, Node, NodeOf } from './change.ts'
import { type Draft, draft, type Ground, named, ruleBook } from './check.ts'
import { type Document, type DocumentKind, documentOf } from './document.ts'
import { type Difference, diffOf, graphAt, historyOf, type Past } from './history.ts'
import { INDEX, type Whereabouts } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { applyEntry, loadGroup } from './load.ts'
import { nodeKey } from './node.ts'
import type { Restoration } from './restore.ts'
import { forkPlan, type RestoreOptions, restore, takeSnapshot } from './snapshot.ts'
import { type Delta, type GraphState, graphState } from './state.ts'
import { type Finding, verifyGraph } from './verify.ts'
import { type Reason, why } from './view.ts'

export interface GraphOptions {
  readonly clock?: Clock
  /** Told in events as project_id. */
  readonly project_id?: string
  /** How many ended plans, dialogs, … stay in memory. */
  readonly keepEnded?: number
  /** Ids of rules, arrows and events to switch over; for proofs. */
  readonly switched?: ReadonlySet<string>
}

const MOST_ATTEMPTS = 5
const KEEP_ENDED = 16

/** Opens a graph as it stands in the store: its context and what has not ended; the rest comes when it is asked for. */
export async function openGraph(store: Backend, id: string, options: GraphOptions = {}): Promise<ProjectGraph> {
  const graph = new ProjectGraph(store, id, options)
  await graph.reload()
  return graph
}

/** One context and everything in it. Reads are of memory; `find` and `load` bring in what is not there. */
export class ProjectGraph {
  readonly id: string
  readonly store: Backend
  readonly clock: Clock
  readonly #options: GraphOptions
  readonly #rules
  #state: GraphState = graphState()
  #revision = 0
  #stamped = 0
  #queue: Promise<unknown> = Promise.resolve()
  readonly #watchers = new Set<(deltas: readonly Delta[]) => void>()
  /** Groups that have ended but are still in memory, longest unused first. */
  readonly #ended = new Set<string>()

  constructor(store: Backend, id: string, options: GraphOptions) {
    this.id = id
    this.store = store
    this.clock = options.clock ?? systemClock
    this.#options = options
    this.#rules = ruleBook(options.switched)
  }

  get revision(): number {
    return this.#revision
  }

  /** The graph in memory, for questions. Changed by `commit` and by loading only. */
  get state(): GraphState {
    return this.#state
  }

  /** What is in memory under this id. */
  get<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined {
    return this.#state.get(kind, id)
  }

  /** The same, loading it if need be. */
  async find<K extends Kind>(kind: K, id: string): Promise<NodeOf<K> | undefined> {
    const there = this.#state.get(kind, id)
    if (there) return there
    await this.#serially(() => this.#bring([[kind, id]]))
    return this.#state.get(kind, id)
  }

  async require<K extends Kind>(kind: K, id: string): Promise<NodeOf<K>> {
    const node = await this.find(kind, id)
    if (!node) throw new NotFound(kind, id)
    return node
  }

  /** Brings a group into memory: an ended plan, the files. */
  load(group: string): Promise<void> {
    return this.#serially(() => this.#load(group))
  }

  /**
   * The only way in. Changes land together or not at all, one commit at a time. Throws RuleViolation or InvalidInput when they break a rule,
   * FencedOut when somebody else owns the graph, RevisionConflict when others kept writing first: then nothing changed.
   */
  commit(changes: Changes, options: CommitOptions): Promise<Commit> {
    return this.#serially(async () => {
      await this.#bring(named(changes))
      for (const change of changes)
        if (change.kind === 'node_add' && change.group !== undefined) await this.#load(change.group)
      for (let attempt = 1; ; attempt++) {
        const drafted = draft(this.#ground(), changes, options) // throws before anything moved
        const landed = await this.#store(drafted) // durable first; false: somebody wrote before us
        if (landed) return this.#apply(drafted) // cannot fail: draft checked it
        if (attempt === MOST_ATTEMPTS)
          throw new RevisionConflict(this.id, this.#revision, (await this.store.head(this.id)).revision)
        await this.#catchUp() // read what they wrote, then decide again
      }
    })
  }

  /** The L1 document of an object, put together from its nodes. Throws NotFound. */
  document<K extends DocumentKind>(kind: K, id: string): Promise<Document<K>> {
    return documentOf(this, kind, id)
  }

  /** Every change of a node, with who and why, oldest first. */
  async history(kind: Kind, id: string): Promise<readonly Past[]> {
    return historyOf(this, kind, id, (await this.find(kind, id))?.born)
  }

  /** The chain that led to a node, from the context down. */
  async why(kind: Kind, id: string): Promise<readonly Reason[]> {
    await this.require(kind, id)
    return why(this.#state, kind, id)
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
    return verifyGraph(this.store, this)
  }

  /** Calls back with what others have committed, when it is taken in. Returns the way to stop. */
  watch(watcher: (deltas: readonly Delta[]) => void): () => void {
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  /** Takes in what others have committed. */
  refresh(): Promise<void> {
    return this.#serially(() => this.#catchUp())
  }

  /** Forgets memory and reads it anew. */
  reload(): Promise<void> {
    return this.#serially(async () => {
      this.#state = graphState()
      this.#ended.clear()
      const head = await this.store.head(this.id)
      this.#revision = head.revision
      const open = await loadGroup(this.store, this.id, '-', this.#state)
      await Promise.all(open.map((group) => loadGroup(this.store, this.id, group, this.#state)))
      for await (const entry of this.store.read(this.id, { after: Math.max(head.revision - 1, 0) })) {
        const body = entry.body as unknown as EntryBody
        if (entry.revision > head.revision) this.#take(entry.revision, body)
        else this.#stamped = microsOf(body.at)
      }
    })
  }

  #ground(): Ground {
    const { project_id } = this.#options
    return {
      graph: this.id,
      state: this.#state,
      revision: this.#revision,
      stamped: this.#stamped,
      clock: this.clock,
      rules: this.#rules,
      ...(project_id !== undefined && { project_id }),
    }
  }

  async #store(drafted: Draft): Promise<boolean> {
    try {
      await commitOnce(this.store, drafted.write, { clock: this.clock })
      return true
    } catch (error) {
      if (error instanceof RevisionConflict) return false
      if (error instanceof FencedOut) await this.#catchUp() // whoever fenced us out may have written: do not keep a stale picture
      if (error instanceof KeyExists) throw this.#taken(error)
      throw error
    }
  }

  #apply(drafted: Draft): Commit {
    this.#state.apply(drafted.deltas, drafted.ranks)
    this.#revision = drafted.commit.revision
    this.#stamped = drafted.stamped
    for (const { kind, after } of drafted.deltas) if (KINDS[kind].root || kind === 'run') this.#noteEnd(after?.group)
    return drafted.commit
  }

  async #catchUp(): Promise<void> {
    for await (const entry of this.store.read(this.id, { after: this.#revision }))
      this.#take(entry.revision, entry.body as unknown as EntryBody)
  }

  #take(revision: number, body: EntryBody): void {
    const deltas = applyEntry(body, this.#state)
    this.#revision = revision
    this.#stamped = microsOf(body.at)
    for (const watcher of this.#watchers) watcher(deltas)
  }

  /** Loads the groups of nodes that are named but not in memory, as far as the index knows them. */
  async #bring(nodes: readonly (readonly [Kind, string])[]): Promise<void> {
    const keys = new Set<string>()
    for (const [kind, id] of nodes) {
      if (this.#state.has(kind, id)) {
        if (this.#ended.size > 0) this.#touch(this.#state.get(kind, id)!.group)
      } else if (KINDS[kind].indexed) keys.add(INDEX.id(kind, id))
    }
    if (keys.size === 0) return
    for (const value of (await this.store.getMany([...keys])).values()) {
      const { graph, group } = value as Whereabouts
      if (graph === this.id) await this.#load(group)
    }
  }

  async #load(group: string): Promise<void> {
    if (this.#state.hasGroup(group)) return
    await loadGroup(this.store, this.id, group, this.#state)
    this.#noteEnd(group)
  }

  /** Remembers that a group may leave memory once enough others have ended after it. */
  #noteEnd(group: string | undefined): void {
    if (group === undefined || group === '-' || isOpen(this.#state, group)) return
    this.#touch(group, true)
    for (const oldest of this.#ended) {
      if (this.#ended.size <= (this.#options.keepEnded ?? KEEP_ENDED)) return
      this.#ended.delete(oldest)
      this.#state.evict(oldest)
    }
  }

  #touch(group: string, ended = this.#ended.has(group)): void {
    if (!ended) return
    this.#ended.delete(group)
    this.#ended.add(group)
  }

  #taken({ key }: KeyExists): RuleViolation {
    const [, kind, id] = key.startsWith('id/') ? key.split('/') : ['', ...key.split('/').slice(2)]
    return new RuleViolation(this.id, [
      { rule: 'id.unique', node: nodeKey(kind as Kind, id ?? ''), path: '', message: `${kind} ${id} exists already` },
    ])
  }

  #serially<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => undefined) // its caller hears of it; the next one in line need not
    return result
  }
}

function isOpen(state: GraphState, group: string): boolean {
  if (state.plan(group)?.activeRun !== undefined) return true
  const root = (['plan', 'trace', 'dialog', 'collab', 'network'] as const)
    .map((kind) => state.get(kind, group))
    .find(Boolean)
  if (!root) return true // not a group that ends: the files
  return !ENDS.has((root.data as { status: string }).status)
}
const ENDS: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'retired'])

const microsOf = (iso: string): number => Date.parse(iso) * 1000 + Number(iso.slice(-4, -1))
