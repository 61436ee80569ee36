import { setTimeout as pause } from 'node:timers/promises'
import { Unavailable } from '../protocol/errors.ts'
import type { Entry, Position, ScanFrom } from './backend.ts'
import { aheadOfStore } from './check-input.ts'
import { countersOf, sequencePosition } from './position.ts'
import type { RedisConnection } from './redis-connection.ts'
import { FEED, type Keys, type OrderedHash, READ, run, SCAN } from './redis-scripts.ts'
import { byBytes } from './sorted-keys.ts'
import { parsedEntry } from './stored-json.ts'

/** No script may hold the server up for long, and no reply grow without bound: a page has so many rows, and one row more than so many bytes. */
export const PAGE_ROWS = 256
const PAGE_BYTES = 1024 * 1024

/** Keys and texts of a hash in key order. */
export async function* walk(
  connection: RedisConnection,
  { hash, order }: OrderedHash,
  prefix: string,
  { after, limit = Number.POSITIVE_INFINITY }: ScanFrom,
): AsyncIterable<readonly [string, string]> {
  let start = after !== undefined && byBytes(after, prefix) >= 0 ? `(${after}` : `[${prefix}`
  for (let left = limit; left > 0; ) {
    const args = [start, prefix, Math.min(left, PAGE_ROWS), PAGE_BYTES]
    const page = (await connection.ask((redis) => run(redis, SCAN, [hash, order], args))) as string[]
    if (page.length === 0) return
    for (let i = 0; i < page.length; i += 2) yield [page[i]!, page[i + 1]!]
    start = `(${page.at(-2)}`
    left -= page.length / 2
  }
}

/** The journal by pages that go on where the last one ended and are empty at the end. */
export function journalPages(connection: RedisConnection, keys: Keys) {
  return {
    ofStream(stream: string, after: number): () => Promise<Entry[]> {
      let revision = after
      return async () => {
        const args = [stream, revision, PAGE_ROWS, PAGE_BYTES]
        const page = entries(await connection.ask((redis) => run(redis, READ, [keys.journal, keys.places], args)))
        revision = page.at(-1)?.revision ?? revision
        return page
      }
    },
    ofAll(after: Position | undefined): () => Promise<Entry[]> {
      let id = after === undefined ? '0-0' : idOf(after)
      let isKnown = after === undefined
      const newest = async () =>
        (await connection.ask((redis) => redis.xrevrange(keys.journal, '+', '-', 'COUNT', 1)))[0]
      return async () => {
        const args = [id, PAGE_ROWS, PAGE_BYTES]
        const reply = (await connection.ask((redis) => run(redis, FEED, [keys.journal], args))) as string[]
        if (!isKnown && reply.length === 0 && after! > positionOf((await newest())?.[0] ?? '0-0'))
          throw aheadOfStore(after!)
        isKnown = true
        id = reply.at(-ROW) ?? id
        return entries(reply)
      }
    },
  }
}

/** For followers, who outlast a server that is away: asks again, ever more slowly, until there is an answer or nobody waits for it. */
export async function outlasting<T>(ask: () => Promise<T>, isOver: () => boolean): Promise<T> {
  for (let wait = 50; ; wait = Math.min(wait * 2, 1000)) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof Unavailable) || isOver()) throw error
    }
    await pause(wait)
  }
}

/** What the scripts return of an entry: id, stream, revision, body. */
const ROW = 4

function entries(reply: unknown): Entry[] {
  const flat = reply as readonly string[]
  return Array.from({ length: flat.length / ROW }, (_, i) => {
    const [id, stream, revision, body] = flat.slice(i * ROW, (i + 1) * ROW) as [string, string, string, string]
    return {
      stream,
      revision: Number(revision),
      position: positionOf(id),
      body: parsedEntry(stream, Number(revision), body),
    }
  })
}

/** An id of a Redis stream is two counters: milliseconds, and a number within them. */
const positionOf = (id: string): Position => sequencePosition(...id.split('-'))
const idOf = (position: Position): string => countersOf(position).map(BigInt).join('-')
