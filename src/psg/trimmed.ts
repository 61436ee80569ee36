import type { Backend } from '../vsl/backend.ts'

/** What is left of a graph that was taken away: who remembers more of it must not think that the store has lost it. */
export const trimmedKey = (graph: string): string => `trimmed/${graph}`

/** When it was last taken away, if it ever was. */
export const trimmedAt = async (store: Pick<Backend, 'getMany'>, graph: string): Promise<string | undefined> => {
  const key = trimmedKey(graph)
  return ((await store.getMany([key])).get(key) as { readonly at: string } | undefined)?.at
}
