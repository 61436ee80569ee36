import { failureIn } from '../orchestrator/outcome.ts'
import type { ProjectFolder } from '../orchestrator/project-folder.ts'
import { NotFound } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import type { AnyNode, Kind } from '../psg/change.ts'
import { DOCUMENT_KINDS, type Document, type DocumentKind } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import { type Project, upToDate } from '../psg/project.ts'
import type { GraphState } from '../psg/state.ts'
import type { Reason } from '../psg/why.ts'

export interface Found {
  readonly graph: ProjectGraph
  readonly kind: Kind
  readonly id: string
}

/** The graph that holds an object, as it is now, and what kind of object it is. Throws NotFound. */
export async function find(project: Project, id: string): Promise<Found> {
  const where = await project.locate(id)
  if (!where) throw new NotFound('object', id)
  const graph = await upToDate(project, where)
  if (where.kind === 'action' && !graph.get('action', id)) throw new NotFound('object', id) // found through a step that has none yet
  return { graph, kind: where.kind, id }
}

/** The same, where what is named may also be a file of the project's folder, by its path, be it deleted. Throws NotFound. */
export async function findNamed(project: Project, name: string, folder: ProjectFolder | undefined): Promise<Found> {
  try {
    return await find(project, name)
  } catch (error) {
    const graph = error instanceof NotFound ? await folder?.known() : undefined
    if (!graph) throw error
    const { fileId } = await import('../drift/compare.ts')
    const file = await lastKnown(graph, 'file', fileId(name))
    if (!file) throw error
    return { graph, kind: 'file', id: file.id }
  }
}

/** A link of such a chain, and what a plan, a step or an action has failed of. */
export interface ToldReason extends Reason {
  readonly error?: Json
  /** Of a step that waits for a place in the process that was asked: for an action of this type. */
  readonly without_place?: string
}

/** The chain that led to something. A file may lie in another graph than the action that wrote it: then the chain goes on there. */
export async function whyOf(project: Project, { graph, kind, id }: Found): Promise<readonly ToldReason[]> {
  const chain = (await graph.why(kind, id)).map((reason) => ({ ...reason, ...failureOf(graph, reason) }))
  const node = kind === 'file' ? await lastKnown(graph, kind, id) : undefined
  const author = isKind(node, 'file') ? node.data.written_by : undefined
  if (author === undefined || chain.some((reason) => reason.id === author)) return chain
  const where = await project.locate(author)
  return where ? [...(await whyOf(project, await find(project, author))), ...chain] : chain
}

/** What the run of a plan, an action, or the last one of a step, has failed of; also where it is to be tried again. */
function failureOf({ state }: ProjectGraph, { kind, id, status }: Reason): { readonly error?: Json } {
  if (status === 'completed') return {}
  if (kind === 'plan') return failureOfRun(state, id)
  const actions =
    kind === 'step' ? [...state.referrers('step', id, 'EXECUTES')] : kind === 'action' ? [state.get('action', id)] : []
  const errors = actions
    .filter((node) => isKind(node, 'action'))
    .sort((one, other) => one.born - other.born)
    .flatMap(({ data }) => (data.status === 'running' ? [] : (failureIn(data) ?? [])))
  return errors.length === 0 ? {} : { error: errors.at(-1)! }
}

function failureOfRun(state: GraphState, plan: string): { readonly error?: Json } {
  for (const node of state.referrers('plan', plan, 'RUNS')) {
    const error = isKind(node, 'run') ? node.data.result?.error : undefined
    if (error !== undefined) return { error }
  }
  return {}
}

/** The L1 document of what the protocol knows; of our own kinds, what the graph keeps. Of what was deleted, what the graph kept then, and who did it. */
export async function shownAs({ graph, kind, id }: Found): Promise<Document | Json> {
  const node = await graph.find(kind, id)
  if (!node) return deletedAs({ graph, kind, id })
  const isDocument = (DOCUMENT_KINDS as readonly string[]).includes(kind)
  return isDocument ? graph.document(kind as DocumentKind, id) : (node.data as unknown as Json)
}

async function deletedAs({ graph, kind, id }: Found): Promise<Json> {
  const node = await lastKnown(graph, kind, id)
  const last = node && (await graph.history(kind, id)).at(-1)
  if (!last || last.after) throw new NotFound(kind, id)
  const { at, actor, reason, run, revision } = last
  return { ...(node.data as JsonObject), deleted: given({ at, actor, reason, run, revision }) }
}

/** A node as it stands, or as it was when it was deleted. */
const lastKnown = (graph: ProjectGraph, kind: Kind, id: string): Promise<AnyNode | undefined> =>
  graph.reading([[kind, id]], (state) => state.get(kind, id) ?? state.tombstone(kind, id))
