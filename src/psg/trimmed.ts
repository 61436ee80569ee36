import type { Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Stored } from './change.ts'
import { graphIn } from './index-rows.ts'
import { fromStored, nodeKey } from './node.ts'
import { wantedRows } from './verify-indexes.ts'

/** What is left of a graph that was taken away: who remembers more of it must not think that the store has lost it. */
export const trimmedKey = (graph: string): string => `trimmed/${graph}`

export const isTrimmed = async (store: Pick<Backend, 'getMany'>, graph: string): Promise<boolean> =>
  (await store.getMany([trimmedKey(graph)])).size > 0

/** The keys of all that a graph has in the store beside its journal: its values, and the rows that lead to it. `stored` is what the journal comes to. */
export async function keysOfGraph(
  store: Backend,
  graph: string,
  stored: ReadonlyMap<string, Stored>,
): Promise<readonly string[]> {
  const keys: string[] = []
  for await (const [key] of store.scan(`${graph}/`)) keys.push(key)
  const live = [...stored].filter(([, { deleted }]) => !deleted).map(([key, value]) => fromStored(key, value))
  const nodes = new Map(live.map((node) => [nodeKey(node.kind, node.id), node]))
  const { wanted } = wantedRows(graph, { nodes, stored })
  const isItsOwn = (key: string, row: Json) => key.startsWith('ended/') || graphIn(row) === graph
  for (const [key, row] of await store.getMany([...wanted.keys()])) if (isItsOwn(key, row)) keys.push(key)
  return keys
}
