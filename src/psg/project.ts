import { NotFound } from '../protocol/errors.ts'
import type { Role } from '../protocol/types.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Commit, CommitOptions, Kind } from './change.ts'
import { checkProjectOptions } from './check-options.ts'
import { takeApart } from './document.ts'
import { stepOfFirst } from './first-action.ts'
import { type GraphOptions, newGraph, openGraph, type ProjectGraph, type Roles } from './graph.ts'
import { type Documents, importDocuments } from './import-documents.ts'
import { INDEX, isTooLong, type Whereabouts } from './indexes.ts'
import { KINDS } from './kinds.ts'
import { byPlace, ofKind } from './node.ts'
import { openGraphs } from './open-graphs.ts'
import { projectId } from './project-id.ts'
import { type Verified, type VerifyOptions, verifyProject } from './verify-project.ts'

export interface ProjectOptions extends Omit<GraphOptions, 'project_id' | 'roles'> {
  /** A role field that names no role of the project is an error. */
  readonly strict?: boolean
}

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
  /** The graph of a context that its first commit makes: if it is there already, that commit is refused. */
  beginning(id: string): Promise<ProjectGraph>
  /** A new context and its graph. */
  create(context: unknown, options: CommitOptions): Promise<ProjectGraph>
  /**
   * Takes documents apart as they stand, marked as imported: one commit per graph, after both were found to hold. Answers with the graph of their
   * context; `context` names it where they do not.
   */
  import(
    documents: Documents,
    options: CommitOptions & { readonly context?: string },
  ): Promise<{ graph: ProjectGraph; commits: readonly Commit[] }>
  /**
   * Where something is, by its id alone. Of several kinds that have this id, the first in `rather` is meant. A step's first action is where the step is,
   * begun or not.
   */
  locate(id: string, ...rather: readonly Kind[]): Promise<(Whereabouts & { readonly kind: Kind }) | undefined>
  /** A role by id, else by name. */
  role(idOrName: string): Role | undefined
  /** Forgets a context's graph; the next `context` reads it anew. */
  forget(id: string): void
  /** Proves everything from the store alone; no findings are the proof. */
  verify(options?: VerifyOptions): Promise<Verified>
}

/** Those that act without being anybody's role: what decides by rule, and what runs. */
const OWN_ROLES: ReadonlySet<string> = new Set(['policy', 'runtime'])

export async function openProject(store: Backend, options: ProjectOptions = {}): Promise<Project> {
  checkProjectOptions(store, options)
  const { strict = false, ...given } = options
  const id = await projectId(store, options)
  const graph = await openGraph(store, id, { ...given, project_id: id })
  const role = roleBook(graph)
  const roles: Roles = {
    has: (idOrName) => OWN_ROLES.has(idOrName) || role(idOrName) !== undefined,
    async refresh() {
      const { revision } = graph
      await graph.refresh()
      return graph.revision > revision
    },
  }
  const graphOptions = { ...given, project_id: id, ...(strict && { roles }) }
  const contexts = openGraphs((contextId) => openGraph(store, contextId, graphOptions))
  const opening = async (contextId: string) => {
    if (isTooLong(contextId)) throw new NotFound('context', contextId)
    return contexts.get(contextId)
  }
  const beginning = (contextId: string) => contexts.get(contextId, () => newGraph(store, contextId, graphOptions))
  const locate: Project['locate'] = async (wanted, ...rather) => {
    if (typeof wanted !== 'string') return undefined // nothing is called that
    const places = [
      ...INDEXED.map((kind) => ({ kind, key: INDEX.id(kind, wanted) })),
      { kind: 'action' as const, key: INDEX.id('step', stepOfFirst(wanted)) },
    ]
    const keys = places.map(({ key }) => key).filter((key) => !isTooLong(key)) // a path may be
    const found = await store.getMany(keys)
    const meant = rather.flatMap((kind) => places.filter((place) => place.kind === kind))
    for (const { kind, key } of [...meant, ...places]) {
      const where = found.get(key)
      if (where) return { ...(where as Whereabouts), kind }
    }
    return undefined
  }

  return {
    id,
    store,
    graph,
    async context(contextId) {
      const found = await opening(contextId)
      if (found.get('context', contextId)) return found
      await found.refresh()
      if (found.get('context', contextId)) return found
      contexts.forget(contextId)
      throw new NotFound('context', contextId)
    },
    opening,
    beginning,
    async create(context, commit) {
      const changes = takeApart('context', context)
      const created = await beginning((changes[0] as { id: string }).id)
      await created.commit(changes, commit)
      return created
    },
    import: (documents, options) => importDocuments({ graph, opening, locate }, documents, options),
    locate,
    role,
    forget: contexts.forget,
    verify: (verifying) => verifyProject(store, id, verifying),
  }
}

/** The graph that something lies in, as others have left it, with all that belongs to it in memory. */
export async function upToDate(project: Project, where: Whereabouts): Promise<ProjectGraph> {
  const graph = await caughtUp(project, where)
  await graph.load(where.group)
  return graph
}

/** The same, with nothing brought into memory but what others have written. */
export async function caughtUp(project: Project, { graph: id }: Pick<Whereabouts, 'graph'>): Promise<ProjectGraph> {
  const graph = id === project.id ? project.graph : await project.context(id)
  await graph.refresh()
  return graph
}

const INDEXED = (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].indexed)

/** Roles by id, else by name; of two with one name the older. Names are gathered once per revision. */
function roleBook(graph: ProjectGraph): (idOrName: string) => Role | undefined {
  let names = new Map<string, Role>()
  let gathered = -1
  return (idOrName) => {
    const byId = graph.get('role', idOrName)
    if (byId) return byId.data
    if (gathered !== graph.revision) {
      const roles = [...ofKind(graph.state.nodes(), 'role')].filter((node) => !node.retired)
      names = new Map(roles.sort((a, b) => byPlace(b, a)).map(({ data }) => [data.name, data]))
      gathered = graph.revision
    }
    return names.get(idOrName)
  }
}
