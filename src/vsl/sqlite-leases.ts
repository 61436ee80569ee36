import type { Clock } from '../protocol/clock.ts'
import type { Head, Holder, Lease } from './backend.ts'
import { isFree } from './holder.ts'
import type { Database } from './sqlite-open.ts'

/** Heads and the leases in them; all but `head` inside the caller's transaction. Time is the machine's. */
export function leases(db: Database, clock: Clock) {
  const select = db.prepare('SELECT revision, token, holder, until FROM heads WHERE stream = ?').raw()
  const take = db.prepare(
    `INSERT INTO heads (stream, revision, token, holder, until) VALUES (?, 0, ?, ?, ?)
     ON CONFLICT (stream) DO UPDATE SET token = excluded.token, holder = excluded.holder, until = excluded.until`,
  )
  const prolong = db.prepare('UPDATE heads SET until = ? WHERE stream = ? AND token = ? AND holder IS NOT NULL')
  const end = db.prepare('UPDATE heads SET holder = NULL, until = NULL WHERE stream = ? AND token = ?')
  const rowOf = (stream: string): HeadRow => (select.get([stream]) as HeadRow | undefined) ?? [0, 0, null, 0]

  return {
    head(stream: string): Head {
      const [revision, token] = rowOf(stream)
      return { revision, token }
    },
    acquire(stream: string, holder: Holder, ttlMs: number): Lease | undefined {
      const [, token, held, until] = rowOf(stream)
      const now = clock.now()
      if (!isFree(held === null ? undefined : { holder: JSON.parse(held), until }, holder, now)) return undefined
      take.run([stream, token + 1, JSON.stringify(holder), now + ttlMs])
      return { stream, holder, token: token + 1, ttlMs }
    },
    renew: ({ stream, token, ttlMs }: Lease): boolean =>
      prolong.run([clock.now() + ttlMs, stream, token]).changes === 1,
    release: ({ stream, token }: Lease): void => void end.run([stream, token]),
  }
}

type HeadRow = readonly [revision: number, token: number, holder: string | null, until: number]
