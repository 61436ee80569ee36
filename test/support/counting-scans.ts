import type { Backend } from '../../src/vsl/backend.ts'

/** The same store, and how many rows were read from it in walks through its keys. */
export function countingScans(store: Backend): { readonly store: Backend; readonly seen: () => number } {
  let seen = 0
  const counting: Backend = {
    ...store,
    async *scan(prefix, from) {
      for await (const pair of store.scan(prefix, from)) {
        seen++
        yield pair
      }
    },
  }
  return { store: counting, seen: () => seen }
}
