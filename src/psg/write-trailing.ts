import type { Backend } from '../vsl/backend.ts'
import { checkStores } from '../vsl/check-options.ts'
import type { EntryBody, Stored } from './change.ts'
import { takeOn } from './field-change.ts'
import { INDEX, type Written } from './indexes.ts'
import { projectIn } from './project-id.ts'
import { everyContext } from './verify-project.ts'

/**
 * Writes the values of all graphs that only their journals tell yet: in a store that people read, such as a copy in a folder, each then has a file of
 * its own. For stores that nobody works with: a graph that somebody commits to meanwhile throws RevisionConflict, and stays as it was. Throws Refused
 * for a copy that was cut off.
 */
export async function writeTrailing(store: Backend): Promise<void> {
  checkStores({ store })
  const project = await projectIn(store)
  if (project === undefined) return
  for (const graph of [project, ...(await everyContext(store))]) await writeThoseOf(store, graph)
}

async function writeThoseOf(store: Backend, graph: string): Promise<void> {
  const { revision: expected } = await store.head(graph)
  const mark = INDEX.written(graph)
  const marked = (await store.getMany([mark])).get(mark) as Written | undefined
  if (!marked) return
  const changes = []
  for await (const { body } of store.read(graph, { after: marked.revision }))
    changes.push(...(body as unknown as EntryBody).changes)
  const keys = new Set(changes.map(({ key }) => key))
  const values = new Map((await store.getMany([...keys])) as Map<string, Stored>)
  for (const change of changes) takeOn(values, change)
  await store.commit({ stream: graph, expected, inserts: [], puts: [...values], deletes: [mark] })
}
