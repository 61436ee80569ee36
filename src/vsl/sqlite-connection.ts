import { setImmediate as nextTurn } from 'node:timers/promises'
import type LibsqlAside from 'libsql/promise'
import type { Clock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { required } from '../protocol/required.ts'
import { isBusy, isIoError, sqliteError } from './sqlite-errors.ts'
import { BLOCKING_MS, type Database, disconnect } from './sqlite-open.ts'

/** The driver seldom waits for the outside: without a turn now and then, a loop of calls would keep timers and sockets from theirs. */
const CALLS_A_TURN = 16

/** How many commits it takes, about, for a disk that became slower or faster to be taken for such. */
const USUAL_OF = 8

export interface SqliteConnectionOptions {
  readonly what: string
  readonly path: string
  readonly timeoutMs: number
  readonly blockingMs: number
  readonly clock: Clock
}

/** One connection for everybody in the process, one after another. */
export interface SqliteConnection {
  /** The driver gives up on another process's lock soon; the long wait is here, where it blocks nobody. */
  patiently<T>(work: () => T | Promise<T>): Promise<T>
  /** All of the work or nothing, to be called patiently; `lost` makes the error for a commit that failed in a way that leaves it open. */
  transact<T>(work: () => T, lost?: (error: unknown) => unknown): Promise<T>
  /** From here on, what the file system no longer allows may pass: Unavailable, where it was Refused before. */
  stands(): void
  /** After those who wait for their turn; who waits for another process finds it closed. */
  close(): Promise<void>
}

export function sqliteConnection(db: Database, options: SqliteConnectionOptions): SqliteConnection {
  const { what, path, timeoutMs, blockingMs, clock } = options
  let calls = 0
  let stood = false
  /** What the connection shows until it has settled may yet be undone, so that nobody else may look. */
  let transaction: Promise<void> | undefined
  const ended = () => {
    transaction = undefined
  }
  let usualMs = 0
  /** Another process was just found to have the lock. A try keeps the thread, so that one is made for all who wait, and not before this is over. */
  let held: { readonly error: unknown; readonly ms: number; readonly over: Promise<void> } | undefined

  function heldFor(pause: number, error: unknown) {
    const ms = pause * (0.5 + clock.random()) // uneven, or two processes could keep missing the same gaps
    const over = clock.sleep(ms).then(() => {
      held = undefined
    })
    return { error, ms, over }
  }

  /** The lock is taken first: a statement that met a lock would stay half open in this driver. */
  async function whole<T>(work: () => T, lost: (error: unknown) => unknown): Promise<T> {
    if (held) throw held.error
    db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      await commit(lost)
      return result
    } catch (error) {
      if (db.inTransaction) db.exec('ROLLBACK') // some errors, a full disk for one, have already done it
      throw error
    }
  }

  /**
   * A quick disk is waited for: another thread and back takes some 40 µs. A slow one would keep the whole process from its work. When the sync
   * fails, the pages may be in the log all the same, and a restart after a crash would find them there.
   */
  async function commit(lost: (error: unknown) => unknown): Promise<void> {
    const begun = performance.now()
    try {
      if (usualMs >= blockingMs) await execAside(db, 'COMMIT')
      else db.exec('COMMIT')
    } catch (error) {
      throw isIoError(error) ? lost(error) : error
    }
    usualMs += (performance.now() - begun - usualMs) / USUAL_OF
  }

  return {
    async patiently(work) {
      if (++calls % CALLS_A_TURN === 0) await nextTurn()
      const begun = performance.now() // not by the clock, which may be set meanwhile
      let waited = 0
      for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
        while (transaction) await transaction // whoever waited longer may have begun the next
        if (!db.open) throw new Closed(what)
        try {
          return await work()
        } catch (error) {
          if (!isBusy(error)) throw sqliteError(path, error, stood)
          held ??= heldFor(pause, error) // also by who gives up: those who have waited as long need not try
          const since = performance.now() - begun // others who wait keep the thread as well
          if (Math.max(waited, since) >= timeoutMs) throw sqliteError(path, error)
        }
        waited += BLOCKING_MS + held.ms
        await held.over
      }
    },
    transact(work, lost = (error) => error) {
      const result = whole(work, lost)
      transaction = result.then(ended, ended)
      return result
    },
    stands() {
      stood = true
    },
    async close() {
      while (transaction) await transaction
      if (db.open) disconnect(db)
    },
  }
}

/** On a thread of the driver's. It has two faces, and only the other one can do this; the connection behind them is the same. */
function execAside(db: Database, sql: string): Promise<unknown> {
  const Aside = required('libsql/promise') as typeof LibsqlAside
  return Aside.prototype.exec.call(db, sql)
}
