import { NotFound } from '../protocol/errors.ts'
import type { Kind } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'

/** The graph that holds an object, and what kind of object it is. Throws NotFound. */
export async function find(project: Project, id: string): Promise<{ graph: ProjectGraph; kind: Kind; id: string }> {
  const where = await project.locate(id)
  if (!where) throw new NotFound('object', id)
  const graph = where.graph === project.id ? project.graph : await project.context(where.graph)
  await graph.load(where.group)
  return { graph, kind: where.kind, id }
}
