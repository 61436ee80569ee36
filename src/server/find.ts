import { NotFound } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { Kind } from '../psg/change.ts'
import { DOCUMENT_KINDS, type Document, type DocumentKind } from '../psg/document.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'

export interface Found {
  readonly graph: ProjectGraph
  readonly kind: Kind
  readonly id: string
}

/** The graph that holds an object, as it is now, and what kind of object it is. Throws NotFound. */
export async function find(project: Project, id: string): Promise<Found> {
  const where = await project.locate(id)
  if (!where) throw new NotFound('object', id)
  const graph = where.graph === project.id ? project.graph : await project.context(where.graph)
  await graph.refresh()
  await graph.load(where.group)
  return { graph, kind: where.kind, id }
}

/** The L1 document of what the protocol knows; of our own kinds, what the graph keeps. */
export async function shownAs({ graph, kind, id }: Found): Promise<Document | Json> {
  const isDocument = (DOCUMENT_KINDS as readonly string[]).includes(kind)
  return isDocument
    ? graph.document(kind as DocumentKind, id)
    : ((await graph.require(kind, id)).data as unknown as Json)
}
