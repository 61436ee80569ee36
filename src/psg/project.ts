import { systemClock } from '../protocol/clock.ts'
import { InvalidInput, KeyExists, NotFound, RevisionConflict } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Role } from '../protocol/types.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Change, Commit, CommitOptions, Kind } from './change.ts'
import { type DocumentKind, takeApart } from './document.ts'
import { type GraphOptions, openGraph, type ProjectGraph } from './graph.ts'
import { INDEX, type Whereabouts } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { isKind } from './node.ts'

/** Documents by kind, as a folder of them would hold. */
export type Documents = { readonly [K in DocumentKind]?: unknown }

/** Everything in one store: the project's own graph, and one graph per context. */
export interface Project {
  readonly id: string
  readonly store: Backend
  /** Roles and Core. */
  readonly graph: ProjectGraph
  /** The graph of a context; opened once and kept. Throws NotFound. */
  context(id: string): Promise<ProjectGraph>
  /** The graph of a context that may not be there yet: whoever commits it first makes it. */
  opening(id: string): Promise<ProjectGraph>
  /** A new context and its graph. */
  create(context: unknown, options: CommitOptions): Promise<ProjectGraph>
  /** Takes documents apart as they stand, marked as imported: one commit per graph. Answers with the graph of their context. */
  import(
    documents: readonly (readonly [DocumentKind, unknown])[],
    options: CommitOptions,
  ): Promise<{ graph: ProjectGraph; commits: readonly Commit[] }>
  /** Where something is, by its id alone. */
  locate(id: string): Promise<(Whereabouts & { readonly kind: Kind }) | undefined>
  /** A role by id, else by name. */
  role(idOrName: string): Role | undefined
  /** Forgets a context's graph; the next `context` reads it anew. */
  forget(id: string): void
}

const NAME = 'project'

export async function openProject(store: Backend, options: GraphOptions = {}): Promise<Project> {
  const id = await projectId(store, options)
  const graphOptions = { ...options, project_id: id }
  const graph = await openGraph(store, id, graphOptions)
  const contexts = new Map<string, Promise<ProjectGraph>>()

  const opened = (contextId: string): Promise<ProjectGraph> => {
    const known = contexts.get(contextId)
    if (known) return known
    const opening = openGraph(store, contextId, graphOptions)
    contexts.set(contextId, opening)
    opening.catch(() => contexts.delete(contextId)) // a failed opening is tried again by the next caller
    return opening
  }

  return {
    id,
    store,
    graph,
    async context(contextId) {
      const found = await opened(contextId)
      if (found.get('context', contextId)) return found
      await found.refresh()
      if (found.get('context', contextId)) return found
      contexts.delete(contextId)
      throw new NotFound('context', contextId)
    },
    opening: opened,
    async create(context, commit) {
      const changes = takeApart('context', context)
      const created = await opened(idOf(changes))
      await created.commit(changes, commit)
      return created
    },
    async import(documents, commit) {
      const parts = documents.map(([kind, document]) => ({
        kind,
        changes: takeApart(kind, document, { imported: true }),
      }))
      const mine = parts.filter(({ kind }) => KINDS[kind].project).flatMap(({ changes }) => changes)
      const rest = parts.filter(({ kind }) => !KINDS[kind].project).flatMap(({ changes }) => changes)
      const contextId = contextOf(rest)
      const target = contextId === undefined ? graph : await opened(contextId)
      const commits: Commit[] = []
      if (mine.length > 0) commits.push(await graph.commit(mine, commit))
      if (rest.length > 0) commits.push(await target.commit(rest, commit))
      return { graph: target, commits }
    },
    async locate(wanted) {
      const kinds = (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].indexed)
      const found = await store.getMany(kinds.map((kind) => INDEX.id(kind, wanted)))
      for (const kind of kinds) {
        const where = found.get(INDEX.id(kind, wanted))
        if (where) return { ...(where as Whereabouts), kind }
      }
      return undefined
    },
    role(idOrName) {
      const byId = graph.get('role', idOrName)
      if (byId) return byId.data
      for (const node of graph.state.nodes())
        if (isKind(node, 'role') && node.data.name === idOrName && !node.retired) return node.data
      return undefined
    },
    forget: (contextId) => void contexts.delete(contextId),
  }
}

/** Minted once per store; of two processes that mint at once, one wins and both read the same. */
async function projectId(store: Backend, { clock = systemClock }: GraphOptions): Promise<string> {
  for (;;) {
    const there = (await store.getMany([NAME])).get(NAME)
    if (there) return (there as { project_id: string }).project_id
    try {
      await store.commit({
        stream: NAME,
        expected: 0,
        inserts: [[NAME, { project_id: clock.uuid() }]],
        puts: [],
        deletes: [],
      })
    } catch (error) {
      if (!(error instanceof KeyExists || error instanceof RevisionConflict)) throw error
    }
  }
}

const idOf = (changes: readonly Change[]): string => (changes[0] as { id: string }).id

/** The one context that a set of documents belongs to. */
function contextOf(changes: readonly Change[]): string | undefined {
  const named = new Set<string>()
  for (const change of changes) {
    if (change.kind !== 'node_add') continue
    const context = (change.data as JsonObject).context_id
    if (typeof context === 'string') named.add(context)
  }
  if (named.size > 1)
    throw new InvalidInput('documents', [
      {
        path: 'context_id',
        rule: 'one_context',
        message: `name ${named.size} contexts; import one at a time`,
        found: [...named].join(', ').slice(0, 80),
      },
    ])
  if (named.size === 0 && changes.length > 0)
    throw new InvalidInput('documents', [
      { path: 'context_id', rule: 'one_context', message: 'name no context: a Confirm needs its target beside it' },
    ])
  return [...named][0]
}
