import { append } from '../protocol/append.ts'
import { isObject, type Json } from '../protocol/json.ts'
import type { Backend } from '../vsl/backend.ts'
import { INDEX, idIn, type Whereabouts } from './indexes.ts'

/** The indexes of the whole store, that of ids first: it says where the runs are that others only name. That of open groups is each graph's own. */
export const SHARED_INDEXES = ['id', 'running', 'resting', 'waiting', 'timer', 'ended'] as const

/** Where rows are kept that lead to no graph. */
export const NOWHERE = ''

/** The keys of the shared indexes, by the graph that they lead to. They may be out of date by the time somebody looks. */
export type IndexRows = ReadonlyMap<string, readonly string[]>

/** Of all graphs, for whoever looks at many of them; or only of one. */
export async function indexRows(store: Backend, only?: string): Promise<IndexRows> {
  const rows = new Map<string, string[]>()
  const graphs = new Map<string, string>()
  for (const index of SHARED_INDEXES)
    for await (const [key, value] of store.scan(`${index}/`)) {
      const id = idIn(key)
      const graph = graphIn(value) ?? (index === 'ended' ? graphs.get(id) : undefined) ?? NOWHERE
      if (only !== undefined && graph !== only) continue
      if (key === INDEX.id('run', id)) graphs.set(id, graph)
      append(rows, graph, key)
    }
  return rows
}

/** What a row leads to, if it says. */
export function graphIn(row: Json | undefined): string | undefined {
  const graph = isObject(row) ? (row as Partial<Whereabouts>).graph : undefined
  return typeof graph === 'string' ? graph : undefined
}
