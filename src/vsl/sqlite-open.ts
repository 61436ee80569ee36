import { accessSync, constants, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, sep } from 'node:path'
import type libsql from 'libsql'
import { NotFound, Refused } from '../protocol/errors.ts'
import { makeFolder } from '../protocol/make-folder.ts'
import { required } from '../protocol/required.ts'
import { sqliteError } from './sqlite-errors.ts'

export type Database = InstanceType<typeof libsql>
export type Synchronous = 'OFF' | 'NORMAL' | 'FULL' | 'EXTRA'

/** The longest wait for a lock inside a call: the driver is synchronous, so all of the process waits with it. */
export const BLOCKING_MS = 20

/** An entry of a step is 2 to 3 KB: of the smaller pages that SQLite prefers, nearly every one would need a page of its own. */
const PAGE_BYTES = 8192
/** Pages that change again and again are copied from the log into the file once for so many, and not four times. */
const LOG_PAGES = 2000
/** What a log has grown beyond because somebody read for long is given back to the disk once they have ended; twice its usual size is no reason to. */
const LOG_BYTES = 2 * LOG_PAGES * PAGE_BYTES
const CACHE_KIB = 16 * 1024

/** Marks a file as ours ("mplp"), in the place that SQLite keeps for this. */
const APPLICATION_ID = 0x6d706c70

/**
 * Text compares by its UTF-8 bytes. A stream's head is its last entry and its lease: one write lock guards them all, so no third record is needed
 * that would be written with every commit. The sequence is one above the highest, taken under that lock, so it grows in commit order; the last
 * entry must stay, or its place would be given out again. What is new goes side by side to the end, where a table in the order of names would touch
 * a page for each: values have a rowid, and streams a number, by which the journal knows them.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE leases (stream TEXT PRIMARY KEY, token INTEGER NOT NULL, holder TEXT, until INTEGER) WITHOUT ROWID;
  CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, revision INTEGER NOT NULL, body TEXT NOT NULL,
    UNIQUE (stream, revision)
  );
  CREATE TABLE "values" (key TEXT PRIMARY KEY, value TEXT NOT NULL);
  CREATE TABLE own (key TEXT PRIMARY KEY, value TEXT NOT NULL);
  CREATE TABLE blobs (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL);
  `,
  `
  CREATE TABLE streams (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token INTEGER NOT NULL DEFAULT 0, holder TEXT, until INTEGER
  );
  INSERT INTO streams (name) SELECT stream FROM journal GROUP BY stream ORDER BY min(seq);
  INSERT INTO streams (name, token, holder, until) SELECT stream, token, holder, until FROM leases WHERE true
    ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, until = excluded.until;
  DROP TABLE leases;
  ALTER TABLE journal RENAME TO journal_by_name;
  CREATE TABLE journal (
    seq INTEGER PRIMARY KEY, stream INTEGER NOT NULL, revision INTEGER NOT NULL, body TEXT NOT NULL,
    UNIQUE (stream, revision)
  );
  INSERT INTO journal SELECT seq, number, revision, body FROM journal_by_name JOIN streams ON name = stream ORDER BY seq;
  DROP TABLE journal_by_name;
  `,
  'ALTER TABLE blobs ADD COLUMN put_at INTEGER NOT NULL DEFAULT 0;',
]

/** Makes the folder, and in one that is ours nothing but what keeps it out of git; leaves a file that is not ours as it is. Unless it may `create`, throws NotFound for a file that is not there. */
export function connect(path: string, create: boolean): Database {
  try {
    refuseIfTooLong(path)
    refuseIfBereft(path)
    if (!create && fileAt(path) === '') throw new NotFound('store', path)
    // SQLite would fall back to reading only, and leave files beside this one that nobody may write to once this one may be.
    if (fileAt(path) !== '') accessSync(path, constants.W_OK)
    const Libsql = required('libsql') as typeof libsql
    makeOwnFolder(dirname(path))
    return new Libsql(path, { timeout: BLOCKING_MS })
  } catch (error) {
    throw sqliteError(path, error)
  }
}

/** A store that git keeps is gone, or an older one, after a checkout or a stash. What else a folder of another name is for, we do not know. */
function makeOwnFolder(folder: string): void {
  if (makeFolder(folder) !== undefined && basename(folder) === '.mplp') writeFileSync(join(folder, '.gitignore'), '*\n')
}

/** SQLite takes 512, and the file system 255 for a name; both need some for the names of the files beside it. */
const MOST_BYTES = { path: 504, file: 247, folder: 255 }

function refuseIfTooLong(path: string): void {
  const folders = dirname(path)
    .split(sep)
    .map((name) => Buffer.byteLength(name))
  if (
    Buffer.byteLength(path) <= MOST_BYTES.path &&
    Buffer.byteLength(basename(path)) <= MOST_BYTES.file &&
    Math.max(...folders) <= MOST_BYTES.folder
  )
    return
  throw new Refused(
    `the path ${path} is too long for SQLite`,
    `give one of at most ${MOST_BYTES.path} bytes, counted from the root: with ${MOST_BYTES.file} for the name of the file, and ${MOST_BYTES.folder} for that of a folder`,
  )
}

/** A log may hold all that was ever committed. SQLite would take a file without anything in it for a new one, and throw the log away. */
function refuseIfBereft(path: string): void {
  const isThere = (file: string) => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0
  if (!isThere(`${path}-wal`) || isThere(path)) return // in this order: whoever makes a store makes its file first
  throw new Refused(
    `${path}-wal is the log of a file that is not there`,
    `bring ${path} back to it, or take it away too: what was committed last is in it`,
  )
}

/** While somebody reads without an end, nothing leaves the log. */
export const logBytes = (path: string): number => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0

/** Tells the file at a path from any other that may take its place; nothing where there is none. */
export function fileAt(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found ? `${found.dev}:${found.ino}` : ''
}

/** Makes an empty file ours if it may `create`, brings an older one up to date, refuses any other. Safe to call again, and for several processes at once. */
export async function prepare(
  db: Database,
  path: string,
  synchronous: Synchronous,
  create: boolean,
  transact: (work: () => void) => Promise<void>,
): Promise<void> {
  const found = versionOf(db, path)
  if (found === undefined && !create) throw new NotFound('store', path)
  if (found === undefined) db.exec(`PRAGMA page_size = ${PAGE_BYTES}`)
  if (pragma(db, 'journal_mode') !== 'wal' && pragma(db, 'journal_mode = WAL') !== 'wal')
    throw new Refused(`${path} is on a file system without shared memory`, 'give a path on a local disk')
  db.exec(`PRAGMA synchronous = ${synchronous}`)
  db.exec(`PRAGMA journal_size_limit = ${LOG_BYTES}`)
  db.exec(`PRAGMA wal_autocheckpoint = ${LOG_PAGES}; PRAGMA cache_size = -${CACHE_KIB}`)
  if (found === LAYOUT) return
  await transact(() => {
    const version = versionOf(db, path) ?? 0 // again, under the lock: somebody else may have done it meanwhile
    for (const migration of MIGRATIONS.slice(version)) db.exec(migration)
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${LAYOUT}`)
  })
}

/** For each transaction: a newer version may open the file at any time, and bring it to a layout in which we would write what nobody finds. */
export function layoutGuard(db: Database, path: string): () => void {
  const version = db.prepare('PRAGMA user_version').raw()
  return () => {
    if ((version.get() as [number])[0] !== LAYOUT)
      throw new Refused(
        `${path} was brought to another layout by a newer version while it was open`,
        'end this process, and start it again with that version',
      )
  }
}

/**
 * The driver lets go of the file only when its statements are collected as garbage. Whoever copies the file after a close must find everything
 * in it, so the log is emptied into it now.
 */
export function disconnect(db: Database): void {
  try {
    pragma(db, 'wal_checkpoint(TRUNCATE)')
  } catch {
    // Somebody else writes, or the disk is full: nothing is lost, the log is as good as the file.
  }
  db.close()
}

/** Raised by each migration; a file that is ahead of it was written by a newer version. */
export const LAYOUT = MIGRATIONS.length

/** Undefined for a file without anything in it. */
function versionOf(db: Database, path: string): number | undefined {
  const [[id, version, tables]] = db
    .prepare(
      'SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version',
    )
    .raw()
    .all() as [[number, number, number]]
  if (id === 0 && version === 0 && tables === 0) return undefined
  if (id !== APPLICATION_ID)
    throw new Refused(`${path} is an SQLite database of something else`, 'give the path of another file')
  if (version > LAYOUT)
    throw new Refused(
      `${path} was written by a newer version (schema ${version}, this one knows ${LAYOUT})`,
      'use that version, or give the path of another file',
    )
  return version
}

const pragma = (db: Database, text: string): unknown => (db.prepare(`PRAGMA ${text}`).raw().get() as unknown[])[0]
