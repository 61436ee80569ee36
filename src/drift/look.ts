import { eachOf } from '../protocol/each.ts'
import { Refused } from '../protocol/errors.ts'
import type { Change, FileRecord, FindingRecord } from '../psg/change.ts'
import { sameJson } from '../psg/plain.ts'
import { commitOn, isOnRecord, question, withdrawn } from './ask.ts'
import { compare, type Finding, findingId, isSameShape, isTracked } from './compare.ts'
import { describe, seenEvent, summary } from './describe.ts'
import {
  AT_ONCE,
  becoming,
  believed,
  believing,
  commit,
  type Desk,
  enterFolders,
  inChunks,
  load,
  observed,
  recorded,
} from './desk.ts'
import type { Observed } from './observe.ts'
import { agreedOn } from './reconcile.ts'
import { Elsewhere, isUnreadable } from './root.ts'

/** What came of a look. */
export interface Looked {
  /** Findings that were not on record before, or were about something else. */
  readonly news: readonly FindingRecord[]
  /** Files that could not be read, and of which nothing is said. */
  readonly unreadable: readonly { readonly path: string; readonly code: string }[]
}

/** Looks at paths on the disk, compares them with what the graph believes, and puts what differs, or no longer does, on record. */
export async function look(desk: Desk, paths: Iterable<string>, thorough = false): Promise<Looked> {
  await load(desk)
  const unreadable: { path: string; code: string }[] = []
  const unseen = new Set<string>()
  await eachOf(new Set([...paths, ...touchedByOthers(desk)]), AT_ONCE, async (path) => {
    if (desk.held.has(path)) return void unseen.add(path) // looked at when it is let go
    try {
      await enterFolders(desk, path)
      if (desk.select.hasFile(path)) note(desk, path, await observed(desk, path, thorough))
      else desk.seen.delete(path)
    } catch (error) {
      unseen.add(path)
      // What does not stand still is told to who has asked; otherwise whatever moves it is followed by another look.
      unreadable.push(error instanceof Elsewhere ? { path, code: 'EBUSY' } : passedBy(path, error))
    }
  })
  return { news: await putOnRecord(desk, unseen), unreadable }
}

/** What cannot be read, or whose rules cannot, stands in no other's way; anything else is thrown on. */
export function passedBy(path: string, error: unknown): Looked['unreadable'][number] {
  const { code = '' } = Object(error instanceof Refused ? error.cause : error) as NodeJS.ErrnoException
  if (!isUnreadable(code)) throw error
  return { path, code }
}

/** Of findings that others, or we before a restart, have put on record or settled: what we remember of the disk there may be long past. */
function* touchedByOthers(desk: Desk): Iterable<string> {
  const ours = new Map(desk.findings)
  for (const record of recorded(desk)) {
    if (ours.get(record.finding_id)?.digest !== record.digest) yield* endsOf(record)
    else ours.delete(record.finding_id)
  }
  for (const finding of ours.values()) yield* endsOf(finding)
}

export const endsOf = ({ path, from }: Pick<Finding, 'path' | 'from'>): readonly string[] =>
  from === undefined ? [path] : [path, from]

/** Remembers what the disk showed, unless it is just what the graph has on record. */
export function note(desk: Desk, path: string, there: Observed | undefined): void {
  const record = believed(desk, path)
  const ours = record !== undefined || isTracked(there)
  if (!ours || (there && record && isAsRecorded(there, record))) desk.seen.delete(path)
  else desk.seen.set(path, there ?? null)
}

function isAsRecorded(there: Observed, record: FileRecord): boolean {
  const { agreed } = record
  return (
    isSameShape(there, record) &&
    agreed !== undefined &&
    isSameShape(there, agreed) &&
    there.ino === agreed.ino &&
    there.mtime_ms === agreed.mtime_ms &&
    there.ctime_ms === agreed.ctime_ms &&
    there.racy === agreed.racy &&
    there.kept === agreed.kept
  )
}

/** The findings that follow from what was seen, and the difference between them and those on record. */
async function putOnRecord(desk: Desk, unseen: ReadonlySet<string>): Promise<readonly FindingRecord[]> {
  const [sides, there] = [new Map<string, FileRecord>(), new Map<string, Observed>()]
  for (const [path, file] of desk.seen) {
    const record = believed(desk, path)
    if (record) sides.set(path, record)
    if (file) there.set(path, file)
  }
  const findings = new Map(compare(sides, there).map((finding) => [findingId(finding), finding]))
  const before = new Map([...recorded(desk)].map((record) => [record.finding_id, record]))
  const fresh = [...findings].filter(([id, { digest }]) => before.get(id)?.digest !== digest)
  const isOver = (record: FindingRecord) =>
    !findings.has(record.finding_id) && !record.deed && !endsOf(record).some((path) => unseen.has(path))
  const over = [...before.values()].filter(isOver)

  desk.findings.clear()
  for (const [id, finding] of findings) desk.findings.set(id, finding)
  await commitAgreements(desk, sides, there)
  for (const chunk of inChunks(over)) await close(desk, chunk)
  const news: FindingRecord[] = []
  for (const chunk of inChunks(fresh)) news.push(...(await open(desk, chunk)))
  return news
}

/** Both sides came to the same by themselves: from now on a merge starts from there. Or its content has come to be kept. */
async function commitAgreements(
  desk: Desk,
  sides: ReadonlyMap<string, FileRecord>,
  there: ReadonlyMap<string, Observed>,
): Promise<void> {
  const agreed: [was: FileRecord, record: FileRecord][] = []
  for (const [path, record] of sides) {
    const file = there.get(path)
    if (!file || !isSameShape(file, record)) continue
    if (record.agreed && isSameShape(file, record.agreed) && (record.kept || !file.kept)) continue
    agreed.push([record, { ...record, agreed: agreedOn(file), kept: record.kept || file.kept }])
    desk.seen.delete(path)
  }
  for (const chunk of inChunks(agreed)) {
    const still = () => chunk.filter(([was]) => sameJson(believed(desk, was.path), was))
    const agreeing = () => still().flatMap(([, record]) => believing(desk, record.path, record))
    await commit(desk, agreeing, 'graph and disk have come to agree')
  }
}

async function close(desk: Desk, records: readonly FindingRecord[]): Promise<void> {
  const closing = () =>
    records
      .filter((record) => isOnRecord(desk, record))
      .flatMap(({ finding_id }) => [...withdrawn(desk, finding_id), ...becoming(desk, 'finding', finding_id, null)])
  await commitOn(desk, records, closing, 'graph and disk agree again')
}

async function open(desk: Desk, findings: readonly (readonly [string, Finding])[]): Promise<readonly FindingRecord[]> {
  for (;;) {
    const fresh = findings.filter(([id, { digest }]) => desk.graph.get('finding', id)?.data.digest !== digest)
    try {
      return fresh.length === 0 ? [] : await opened(desk, fresh)
    } catch (error) {
      if (error !== OVERTAKEN) throw error
    }
  }
}
/** Another process has put one of them on record, with a question of its own: a second one would wait for ever. */
const OVERTAKEN = new Error('somebody else has put it on record')

async function opened(desk: Desk, fresh: readonly (readonly [string, Finding])[]): Promise<readonly FindingRecord[]> {
  const { graph, clock } = desk
  const group = clock.uuid()
  const onRecord = () => fresh.map(([id]) => graph.get('finding', id)?.data)
  const before = onRecord()
  const news: { readonly record: FindingRecord; readonly asked: readonly Change[] }[] = []
  for (const [, finding] of fresh) {
    const verdict = desk.verdictOn(finding)
    const told = await describe(desk, finding)
    const asked = verdict.strategy === 'ask' ? question(told, { clock, group, verdict }) : undefined
    const record = asked ? { ...told, confirm_id: asked.confirm_id } : told
    news.push({ record, asked: asked?.changes ?? [] })
  }
  const records = news.map(({ record }) => record)
  const opening = () => {
    if (onRecord().some((record, i) => record?.digest !== before[i]?.digest)) throw OVERTAKEN
    return [
      ...records.flatMap(({ finding_id }) => withdrawn(desk, finding_id)),
      ...news.flatMap(({ record, asked }) => [...becoming(desk, 'finding', record.finding_id, record), ...asked]),
    ]
  }
  await commitOn(desk, records, opening, fresh.length === 1 ? summary(records[0]!) : `${fresh.length} files differ`, {
    events: records.map((record) => seenEvent(record, desk.root.path)),
  })
  return records
}
