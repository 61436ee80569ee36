import type { TestContext } from 'vitest'
import type { Json } from '../../../src/protocol/json.ts'
import type { Backend, Entry, Write } from '../../../src/vsl/backend.ts'

/** What a test of the contract has at hand. */
export interface Given {
  /** The store of this test, open. */
  readonly backend: Backend
  /** Closes it everywhere and opens it again. */
  reopen(): Promise<Backend>
  /** Opens it a second time, as another process would. */
  beside(): Promise<Backend>
  elapse(ms: number): Promise<void>
  /** Does the store keep what it has when it is closed? */
  kept(): boolean
  readonly scanKeys: number
  readonly longMs: number
}

/** Skips the test, with the reason, where the store says that only one process may open it. */
export function needsManyProcesses(given: Given, context: TestContext): void {
  context.skip(given.backend.traits.processes === 'one', 'this store is for one process at a time')
}

export function needsKept(given: Given, context: TestContext): void {
  context.skip(!given.kept(), 'this store is empty again once it is closed')
}

/** A write with nothing in it but what is said. */
export const write = (stream: string, expected: number, parts: Partial<Write> = {}): Write => ({
  stream,
  expected,
  inserts: [],
  puts: [],
  deletes: [],
  ...parts,
})

/** A write of one entry. */
export const append = (stream: string, expected: number, entry: Json = { n: expected + 1 }): Write =>
  write(stream, expected, { entry })

export async function collect<T>(items: AsyncIterable<T>, limit = Number.POSITIVE_INFINITY): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) {
    found.push(item)
    if (found.length >= limit) break
  }
  return found
}

export const keysOf = async (backend: Backend, prefix = ''): Promise<string[]> =>
  (await collect(backend.scan(prefix))).map(([key]) => key)

export const bodies = (entries: readonly Entry[]): Json[] => entries.map((entry) => entry.body)

/** Everything that can be asked of a store, to be compared with what it was before. */
export async function everything(backend: Backend, streams: readonly string[]): Promise<unknown> {
  return {
    values: await collect(backend.scan('')),
    own: await collect(backend.scan('', { own: true })),
    feed: await collect(backend.feed()),
    heads: await Promise.all(streams.map((stream) => backend.head(stream))),
    blobs: (await collect(backend.blobs())).sort(),
  }
}

/** The classes of what was thrown, `undefined` for those that went well. */
export const refusals = (results: readonly PromiseSettledResult<unknown>[]): (string | undefined)[] =>
  results.map((result) => (result.status === 'rejected' ? (result.reason as Error).name : undefined))
