import { resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { inParts } from '../protocol/each.ts'
import { Closed, OutcomeUnknown, Refused } from '../protocol/errors.ts'
import { amount, needed, oneOf } from '../protocol/fields.ts'
import { type Digest, digestOf, type Json } from '../protocol/json.ts'
import type { Backend } from './backend.ts'
import { textOf } from './check-input.ts'
import { checkOpening, path as pathField } from './check-options.ts'
import { checked } from './checked.ts'
import { followers } from './followers.ts'
import { grouped } from './grouped.ts'
import { batchWriter } from './sqlite-commit.ts'
import { sqliteConnection } from './sqlite-connection.ts'
import { sqliteError } from './sqlite-errors.ts'
import { leases } from './sqlite-leases.ts'
import { connect, fileAt, LAYOUT, layoutGuard, logBytes, prepare, type Synchronous } from './sqlite-open.ts'
import { journalPages, keyPages } from './sqlite-pages.ts'
import { MAX_ROWS, rowStatement } from './sqlite-rows.ts'
import { parsedValue } from './stored-json.ts'
import { together } from './together.ts'

export type { Synchronous } from './sqlite-open.ts'

export interface SqliteOptions {
  /** Made when it is not there, with its folders. */
  readonly path: string
  /** Made if it is not there: true when absent. With false NotFound is thrown instead, and nothing is left behind. */
  readonly create?: boolean
  /** Below FULL a commit may be lost with the machine's power, and the store is not `durable`. Default FULL. */
  readonly synchronous?: Synchronous
  /** How long a call waits for another process's write lock before it is Unavailable. Default 5,000. */
  readonly timeoutMs?: number
  /**
   * Commits that lately took this long or longer are made on another thread, so that a slow disk does not keep the process from its work; others
   * are waited for, which is quicker. Default 0.5, and 0 for all of them.
   */
  readonly blockingMs?: number
  readonly clock?: Clock
}

const OWN = {
  path: needed({ says: 'the path of a file', fits: (value) => pathField.fits(value) && value !== ':memory:' }),
  synchronous: oneOf('OFF', 'NORMAL', 'FULL', 'EXTRA'),
  timeoutMs: amount,
  blockingMs: amount,
}

/** Other processes' entries are looked for this often, and only while somebody follows. */
const WATCH_MS = 50

/** One file with a write-ahead log, for any number of processes on one machine. */
export async function sqliteBackend(options: SqliteOptions): Promise<Backend> {
  checkOpening('the options of an SQLite store', options, 'create', 'clock', OWN)
  const { create = true, synchronous = 'FULL', timeoutMs = 5000, blockingMs = 0.5, clock = systemClock } = options
  const path = resolve(options.path)
  const what = `the SQLite store ${path}`
  const db = connect(path, create)
  const closing = new AbortController()

  const connection = sqliteConnection(db, { what, path, timeoutMs, blockingMs, clock })
  const { patiently, transact } = connection
  let file = ''
  const refuseIfReplaced = () => {
    if (fileAt(path) !== file)
      throw new Refused(`${path} was removed or replaced while it was open`, 'open the store again')
  }
  /** All of the work or nothing, in the file that was opened: what goes into one that is no longer there is kept by nobody. */
  const whole = <T>(work: () => T, lost?: (error: unknown) => unknown) =>
    patiently(() => {
      refuseIfReplaced()
      return transact(() => {
        refuseIfNewer()
        return work()
      }, lost)
    })

  try {
    await patiently(() => prepare(db, path, synchronous, create, transact))
    file = fileAt(path)
  } catch (error) {
    db.close()
    throw error
  }
  connection.stands()

  const refuseIfNewer = layoutGuard(db, path)
  const writeBatch = batchWriter(db)
  const { head, acquire, renew, release } = leases(db, clock)
  const journal = journalPages(db)
  const pages = { values: keyPages(db, '"values"'), own: keyPages(db, 'own') }
  const selectMany = rowStatement(db, '?', (rows) => `SELECT key, value FROM "values" WHERE key IN (${rows})`)
  const selectOwn = db.prepare('SELECT value FROM own WHERE key = ?').raw()
  const deleteOwn = db.prepare('DELETE FROM own WHERE key = ?')
  const putOwn = db.prepare('INSERT INTO own VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value')
  const selectBlob = db.prepare('SELECT bytes FROM blobs WHERE digest = ?').raw()
  const putBlobs = rowStatement(
    db,
    '(?, ?, ?)',
    (rows) => `INSERT INTO blobs VALUES ${rows} ON CONFLICT (digest) DO UPDATE SET put_at = excluded.put_at`,
  )
  const deleteBlobs = db.prepare('DELETE FROM blobs WHERE digest = ? AND put_at <= ?')
  const selectBytes = db.prepare('SELECT page_count * page_size FROM pragma_page_count, pragma_page_size').raw()
  const selectDigests = db.prepare('SELECT digest FROM blobs WHERE digest > ? ORDER BY digest LIMIT 1000').raw()

  const open = () => {
    if (closing.signal.aborted) throw new Closed(what)
  }
  const lostOn = (of: string) => (error: unknown) => new OutcomeUnknown(of, { cause: sqliteError(path, error, true) })
  const following = followers(what, watchOthers)
  const commits = grouped(
    { commitBatch: (writes) => whole(() => writeBatch(writes), lostOn(path)) },
    { what, tell: following.wake },
  )

  // Besides its fsync a transaction costs a page of the index for nearly every blob, because digests lie scattered: large ones share some.
  const blobs = together<readonly [Digest, Buffer, number]>((batch) => whole(() => putBlobs.run(batch.flat())), {
    most: 2048,
    bytesOf: ([, bytes]) => bytes.length,
    maxBytes: 8 * 1024 * 1024,
  })

  // Fifty small plans take and leave their contexts at about the same time.
  const leased = together<() => void>(
    (batch) =>
      whole(() => {
        for (const work of batch) work()
      }),
    { most: 512 },
  )
  async function leasing<T>(work: () => T): Promise<T> {
    let result: T | undefined
    await leased.add(() => {
      result = work()
    })
    return result as T
  }

  /** For those who follow, or look after it: to a file that is no longer there nothing ever comes. */
  const inPlace =
    <T>(read: () => T) =>
    () => {
      refuseIfReplaced()
      return read()
    }
  const paging = <T>(nextPage: () => T, { follow }: { readonly follow?: boolean }) => {
    const read = follow ? inPlace(nextPage) : nextPage
    return () => nextTurn().then(() => patiently(read))
  }

  let watching = false
  async function watchOthers(): Promise<void> {
    const news = await patiently(journal.news)
    if (watching) return
    watching = true
    const watch = async () => {
      while (following.any) {
        await clock.sleep(WATCH_MS, closing.signal)
        await patiently(inPlace(news)).then(following.wake, following.wakeAll) // those who wake and read are told what is wrong
      }
    }
    watch()
      .catch(() => undefined) // closed: nobody follows any more
      .finally(() => {
        watching = false
      })
  }

  return checked(open, {
    traits: { durable: synchronous === 'FULL' || synchronous === 'EXTRA', processes: 'many', grouped: true },
    async facts() {
      const [bytes] = await patiently(
        inPlace(() => {
          refuseIfNewer()
          return selectBytes.get([]) as [number]
        }),
      )
      return { layout: LAYOUT, bytes: bytes + logBytes(path) }
    },

    async get(key) {
      const row = await patiently(() => selectOwn.get([key]) as [string] | undefined)
      return row && parsedValue(key, row[0])
    },
    async set(key, value) {
      const text = textOf('value', value)
      await whole(() => putOwn.run([key, text]), lostOn(key))
    },
    async delete(key) {
      await whole(() => deleteOwn.run([key]), lostOn(key))
    },

    commit: commits.commit,

    async getMany(keys) {
      const found = new Map<string, Json>()
      for (let at = 0; at < keys.length; at += MAX_ROWS) {
        if (at > 0) await nextTurn()
        open()
        const rows = await patiently(() => selectMany.all(keys.slice(at, at + MAX_ROWS)))
        for (const [key, text] of rows as [string, string][]) found.set(key, parsedValue(key, text))
      }
      return found
    },
    async *scan(prefix, from = {}) {
      const nextPage = pages[from.own ? 'own' : 'values'].from(prefix, from)
      for (let page = await patiently(nextPage); page !== undefined; page = await patiently(nextPage)) {
        for (const [key, text] of page) {
          open()
          yield [key, parsedValue(key, text)]
        }
        await nextTurn()
        open()
      }
    },

    head: (stream) => patiently(() => head(stream)),
    read(stream, from = {}) {
      const nextPage = journal.ofStream(stream, from.after ?? 0)
      return following.entries(stream, paging(nextPage, from), from)
    },
    feed(from = {}) {
      const nextPage = journal.ofAll(from.after)
      return following.entries(undefined, paging(nextPage, from), from)
    },

    acquire: (stream, holder, ttlMs) => leasing(() => acquire(stream, holder, ttlMs)),
    renew: (lease) => leasing(() => renew(lease)),
    release: (lease) => leasing(() => release(lease)),

    async putBlob(bytes) {
      const copy = Buffer.from(bytes)
      const digest = digestOf(copy)
      await blobs.add([digest, copy, clock.now()])
      return digest
    },
    async getBlob(digest) {
      const row = await patiently(() => selectBlob.get([digest]) as [Buffer] | undefined)
      return row && new Uint8Array(row[0])
    },
    async *blobs() {
      for (let after = ''; ; ) {
        open()
        const page = (await patiently(() => selectDigests.all([after]))) as [Digest][]
        if (page.length === 0) return
        for (const [digest] of page) {
          open()
          yield digest
          after = digest
        }
      }
    },
    async forgetBlobs(digests, unputMs) {
      const gone: Digest[] = []
      for (const some of inParts(digests, MAX_ROWS)) {
        open()
        const isUnput = (digest: Digest) => deleteBlobs.run([digest, clock.now() - unputMs]).changes === 1
        gone.push(...(await whole(() => some.filter(isUnput))))
      }
      return gone
    },

    async close() {
      if (!closing.signal.aborted) closing.abort(new Closed(what))
      following.end()
      await commits.close()
      await Promise.all([blobs.idle(), leased.idle()])
      await connection.close()
    },
  })
}
