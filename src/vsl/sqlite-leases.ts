import type { Clock } from '../protocol/clock.ts'
import type { Acquired, Head, Holder, Lease } from './backend.ts'
import { type Held, isFree, shortened } from './holder.ts'
import type { Database } from './sqlite-open.ts'

/** Leases, and heads: the journal's last revision and the lease's token. All but `head` inside the caller's transaction. Time is the machine's. */
export function leases(db: Database, clock: Clock) {
  const select = db.prepare('SELECT token, holder, until FROM streams WHERE name = ?').raw()
  const last = db
    .prepare('SELECT max(revision) FROM journal WHERE stream = (SELECT number FROM streams WHERE name = ?)')
    .raw()
  const take = db.prepare(
    `INSERT INTO streams (name, token, holder, until) VALUES (?, ?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, until = excluded.until`,
  )
  const prolong = db.prepare(
    `UPDATE streams SET until = ?, holder = json_set(holder, '$.ttlMs', ?) WHERE name = ? AND token = ? AND ${IS_HOLDER}`,
  )
  const end = db.prepare(`UPDATE streams SET holder = NULL, until = NULL WHERE name = ? AND token = ? AND ${IS_HOLDER}`)
  const rowOf = (stream: string): LeaseRow => (select.get([stream]) as LeaseRow | undefined) ?? [0, null, 0]

  const revisionOf = (stream: string): number => (last.get([stream]) as [number | null])[0] ?? 0

  return {
    head: (stream: string): Head => ({ revision: revisionOf(stream), token: rowOf(stream)[0] }),
    acquire(stream: string, holder: Holder, ttlMs: number): Acquired | undefined {
      const [token, held, until] = rowOf(stream)
      const now = clock.now()
      const other = held === null ? undefined : heldBy(JSON.parse(held), until)
      if (other && !isFree(other, holder, now)) {
        const ends = shortened(other, now)
        if (ends !== undefined) prolong.run([ends, other.ttlMs, stream, token, other.holder.id])
        return undefined
      }
      // By the clock, as on the servers: a token that was lost with a file in whose place a backup was put is not given out again.
      const next = Math.max(token + 1, Math.floor(now * 1000))
      take.run([stream, next, JSON.stringify({ ...holder, ttlMs }), now + ttlMs])
      return { stream, holder, token: next, ttlMs, revision: revisionOf(stream) }
    },
    renew: ({ stream, token, ttlMs, holder }: Lease): boolean =>
      prolong.run([clock.now() + ttlMs, ttlMs, stream, token, holder.id]).changes === 1,
    release: ({ stream, token, holder }: Lease): void => void end.run([stream, token, holder.id]),
  }
}

const IS_HOLDER = `json_extract(holder, '$.id') = ?`

const heldBy = ({ ttlMs, ...holder }: Holder & { readonly ttlMs?: number }, until: number): Held => ({
  holder,
  until,
  ttlMs,
})

type LeaseRow = readonly [token: number, holder: string | null, until: number]
