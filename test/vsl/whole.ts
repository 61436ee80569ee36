import { expect } from 'vitest'
import type { Backend } from '../../src/vsl/backend.ts'
import { collect } from '../contracts/backend/given.ts'
import { PARTS } from './load.ts'

/** Nothing lost, nothing doubled, nothing half: what landed is there once, in order, with all of its values. */
export async function expectWhole(
  backend: Backend,
  streams: readonly string[],
  landed: readonly string[],
): Promise<void> {
  const found: string[] = []
  for (const stream of streams) {
    const entries = await collect(backend.read(stream))
    expect(entries.map((entry) => entry.revision)).toEqual(entries.map((_, i) => i + 1))
    expect((await backend.head(stream)).revision).toBe(entries.length)
    const ids = entries.map((entry) => (entry.body as { id: string }).id)
    found.push(...ids)
    const values = await backend.getMany(PARTS.map((part) => `${stream}/${part}`))
    expect([...values.values()]).toEqual(ids.length === 0 ? [] : PARTS.map(() => ids.at(-1)))
  }
  expect([...found].sort()).toEqual([...landed].sort())
  const inserts = await collect(backend.scan('once/'))
  expect(inserts.map(([, id]) => id).sort()).toEqual([...found].sort())
  const fed = await collect(backend.feed())
  expect(fed.map((entry) => (entry.body as { id: string }).id).sort()).toEqual([...found].sort())
}
