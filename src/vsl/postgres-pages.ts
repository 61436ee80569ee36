import { type Clock, systemClock } from '../protocol/clock.ts'
import { Unavailable } from '../protocol/errors.ts'
import { slept } from '../protocol/waiting.ts'
import type { Entry, Position, ScanFrom } from './backend.ts'
import { aheadOfStore, badPosition } from './check-input.ts'
import { countersOf, sequencePosition } from './position.ts'
import type { PostgresConnection } from './postgres-connection.ts'
import { parsedEntry } from './stored-json.ts'

/** A page holds so many rows, and so many bytes or one row. */
const PAGE_ROWS = 500
const PAGE_BYTES = 4 * 1024 * 1024

/** Between two looks of somebody who follows everything. */
const PAUSE_MS = 25
/** Between two looks at what is hidden, or at a server that is away. */
const FIRST_WAIT_MS = 5
const LONGEST_WAIT_MS = 1000

/** The largest bigint. */
const LAST_XID = '9223372036854775807'

/** Added to a prefix, above every text of 1,024 bytes that begins with it. */
const LAST = '\u{10ffff}'.repeat(256)

/** Keys and texts of a table in key order. While a page is gone through, the next is on its way. */
export async function* walk(
  connection: PostgresConnection,
  schema: string,
  prefix: string,
  { after = '', limit = Number.POSITIVE_INFINITY, own = false }: ScanFrom,
): AsyncIterable<readonly [string, string]> {
  const table = own ? 'own' : 'values'
  const where = 'key >= $1 and key > $2 and key <= $3'
  const text = paged('key', 'value', `"${schema}"."${table}" where ${where}`, 'key', '$4')
  const statement = { name: `${schema}.scan.${table}`, text }
  const ask = (last: string, rows: number) => {
    const asked = connection.ask<KeyRow>(statement, [prefix, last, prefix + LAST, rows])
    asked.catch(() => undefined) // whoever goes on hears of it
    return asked
  }
  let rows = Math.min(limit, PAGE_ROWS)
  let next = rows > 0 ? ask(after, rows) : undefined
  for (let left = limit; next; ) {
    const page: readonly KeyRow[] = await next
    left -= page.length
    const isLast = left <= 0 || isShort(page, rows)
    rows = Math.min(left, PAGE_ROWS)
    next = isLast ? undefined : ask(page.at(-1)!.key, rows)
    for (const { key, body } of page) yield [key, body]
  }
}

interface KeyRow {
  readonly key: string
  readonly body: string
}

/** Fewer rows than asked for, and not for their size: there are no more. A character is at most three bytes of UTF-8 per UTF-16 unit. */
function isShort(page: readonly KeyRow[], asked: number): boolean {
  return page.length < asked && page.reduce((sum, { body }) => sum + body.length * 3, 0) < PAGE_BYTES
}

/** What is there now, and whether more of it will show without anybody committing. */
export interface JournalPage {
  readonly rows: readonly JournalRow[]
  readonly hidden: boolean
}
export type NextPage = () => Promise<JournalPage>

export interface JournalRow {
  readonly stream: string
  readonly revision: string
  readonly xid: string
  readonly seq: number
  readonly settled: boolean
  readonly body: string
}

interface FeedRow extends JournalRow {
  /** By which an entry is known again, whatever stands in its place. */
  readonly print: string
}
/** What is kept of an entry to know it again: not its body. */
type Shown = Pick<FeedRow, 'stream' | 'xid' | 'print'>
const shownOf = ({ stream, xid, print }: FeedRow): Shown => ({ stream, xid, print })

/** So many characters of it: every entry of a graph has its id among them, sealed or not. */
const PRINTED = 1000

/** Only when its turn has come: the values of a whole page are several times its text, and would all be held at once. */
export const entryOf = ({ stream, revision, xid, seq, body }: JournalRow): Entry => ({
  stream,
  revision: Number(revision),
  position: placeOf({ xid, seq }),
  body: parsedEntry(stream, Number(revision), body),
})

/** The journal by pages that go on where the last one ended and are empty at the end. */
export function journalPages(connection: PostgresConnection, schema: string, base: string) {
  const columns = 'stream, revision, xid, seq'
  const read = {
    name: `${schema}.read`,
    text: paged(columns, 'body', `"${schema}".journal where stream = $1 and revision > $2`, 'revision', `${PAGE_ROWS}`),
  }
  // Transactions below the horizon are over, so nothing can come to stand before what is shown. Those at or above it are only counted. The first row is the
  // last one shown: a server that took the place of another may have given its transaction's id, and those after it, to something else.
  const settled = 'xid < $3::bigint + (select pg_snapshot_xmin(pg_current_snapshot()))::text::bigint'
  const feed = {
    name: `${schema}.feed`,
    text: paged(
      `${columns}, ${settled} as settled, md5(substr(body, 1, ${PRINTED})) as print`,
      `case when ${settled} and (xid, seq) > ($1::bigint, $2::int) then body else '' end`,
      `"${schema}".journal where (xid, seq) >= ($1::bigint, $2::int) and xid <= $4`,
      'xid, seq',
      `${PAGE_ROWS + 1}`,
    ),
  }
  const newest = {
    name: `${schema}.newest`,
    text: `select xid, seq from "${schema}".journal order by xid desc, seq desc limit 1`,
  }
  const forgotten = {
    name: `${schema}.forgotten`,
    text: `select from "${schema}".heads where stream = $1 and forgotten >= $2`,
  }
  const last = async () => (await connection.ask<{ xid: string; seq: number }>(newest))[0] ?? { xid: '0', seq: 0 }

  return {
    ofStream(stream: string, after: number): NextPage {
      let revision = after
      return async () => {
        const rows = await connection.ask<JournalRow>(read, [stream, revision])
        revision = Number(rows.at(-1)?.revision ?? revision)
        return { rows, hidden: false }
      }
    },
    /** Without `follow` it ends with what was there at the first page, or a busy store would never come to an end. */
    ofAll(after: Position | undefined, follow: boolean): NextPage {
      let [xid, seq] = after === undefined ? ['0', '0'] : xidAndSeq(after)
      let end = follow ? LAST_XID : undefined
      let isKnown = after === undefined
      /** The last one shown. */
      let shownLast: Shown | undefined
      const isForgotten = async ({ stream, xid }: Shown) => (await connection.ask(forgotten, [stream, xid])).length > 0
      return async () => {
        end ??= (await last()).xid
        const found = await connection.ask<FeedRow>(feed, [xid, seq, base, end])
        const [first] = found
        const reached = first && placeOf(first) === sequencePosition(xid, seq) ? first : undefined
        const isSame = shownLast === undefined || reached?.print === shownLast.print
        if (!isSame && (reached || !(await isForgotten(shownLast!)))) throw aheadOfStore(sequencePosition(xid, seq))
        const rows = reached ? found.slice(1) : found
        if (!isKnown && found.length === 0 && after! > placeOf(await last())) throw aheadOfStore(after!)
        isKnown = true
        shownLast ??= reached && shownOf(reached)
        const shown = rows.filter((row) => row.settled)
        const latest = shown.at(-1)
        if (latest) [xid, seq, shownLast] = [latest.xid, String(latest.seq), shownOf(latest)]
        return { rows: shown, hidden: shown.length < rows.length }
      }
    },
  }
}

/**
 * The same for somebody who follows everything: a look that finds little is not followed by another at once, because each costs the server about as
 * much as a commit. Not by a clock: one that is set back would have everybody wait until it has caught up, and those of tests need not move.
 */
export function unhurried(next: NextPage, signal: AbortSignal): NextPage {
  let notBefore = 0
  return async () => {
    const early = notBefore - performance.now()
    if (early > 0) await slept(systemClock, early, signal)
    const page = await next()
    notBefore = page.rows.length < PAGE_ROWS ? performance.now() + PAUSE_MS : 0
    return page
  }
}

/**
 * The next page for somebody who follows: outlasts a server that is away, and asks again, ever more slowly, while entries are hidden behind another
 * transaction, whose end nobody tells us. Empty when there is nothing to wait for but a commit, or when the signal is aborted.
 */
export async function followed(next: NextPage, clock: Clock, signal: AbortSignal): Promise<readonly JournalRow[]> {
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      const page = await next()
      if (page.rows.length > 0 || !page.hidden) return page.rows
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
    }
    if (!(await slept(clock, wait, signal))) return []
  }
}

/** The next page for somebody who wants what is there: waits as well for what is hidden, but not for ever, since half an answer is none. */
export async function waited(
  next: NextPage,
  clock: Clock,
  signal: AbortSignal,
  timeoutMs: number,
  what: string,
): Promise<readonly JournalRow[]> {
  let waitedMs = 0 // not reckoned by the clock, which may be set meanwhile
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const page = await next()
    if (page.rows.length > 0 || !page.hidden) return page.rows
    if (waitedMs >= timeoutMs)
      throw new Unavailable(
        what,
        'a transaction that somebody left open hides the newest entries; see pg_stat_activity',
      )
    if (!(await slept(clock, wait, signal))) return []
    waitedMs += wait
  }
}

const paged = (columns: string, body: string, from: string, order: string, limit: string): string => `
  select * from (
    select *, sum(octet_length(body)) over (order by ${order}) - octet_length(body) as before
    from (select ${columns}, ${body} as body from ${from} order by ${order} limit ${limit}) rows
  ) page
  where before < ${PAGE_BYTES} order by ${order}`

const placeOf = ({ xid, seq }: Pick<JournalRow, 'xid' | 'seq'>): Position => sequencePosition(xid, seq)

function xidAndSeq(position: Position): [xid: string, seq: string] {
  const [xid, seq] = countersOf(position)
  if (seq > '00000000002147483647' || xid > `0${LAST_XID}`) throw badPosition(position)
  return [xid, seq]
}
