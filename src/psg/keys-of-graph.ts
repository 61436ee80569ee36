import type { Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import type { Stored } from './change.ts'
import { graphIn } from './index-rows.ts'
import { fromStored, nodeKey } from './node.ts'
import { wantedRows } from './verify-indexes.ts'

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
  const rows = await store.getMany([...wanted.keys()])
  const isAnothers = (row: Json | undefined) => (graphIn(row) ?? graph) !== graph
  // Also what is not there: somebody may be putting the indexes right.
  for (const key of wanted.keys()) if (!isAnothers(rows.get(key))) keys.push(key)
  return keys
}
