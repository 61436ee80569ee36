import { eachOf } from '../protocol/each.ts'
import type { Change, Deed, FileOperation, FileRecord, FindingRecord } from '../psg/change.ts'
import { commitOn, isOnRecord, withdrawn } from './ask.ts'
import { isAs, isSameShape } from './compare.ts'
import {
  AT_ONCE,
  becoming,
  believed,
  believing,
  contentOf,
  type Desk,
  inChunks,
  load,
  observed,
  recorded,
} from './desk.ts'
import { note } from './look.ts'
import type { Observed } from './observe.ts'
import { type Operated, operate } from './operate.ts'
import { agreedOn } from './reconcile.ts'
import { Elsewhere, unlessElsewhere } from './root.ts'
import { foldersOf, parentOf } from './select.ts'

/** A change of the disk that was committed before it is made. */
export interface Begun {
  readonly record: FindingRecord
  readonly deed: Deed
}

/** How it ended; anything but `done` left the graph as it was. */
export interface Ended extends Begun {
  readonly result: Operated | { readonly error: string }
}

/** Commits what is to be done, and remembers it: the store may fail us afterwards, or not even say whether it has it. */
export async function begin(desk: Desk, begun: readonly Begun[], committing: () => Promise<void>): Promise<void> {
  for (const { deed } of begun) desk.begun.add(deed.deed_id)
  await committing()
}

/** Makes the changes, and commits that they are made. A crash on the way leaves deeds on record, and `recover` goes on with them. */
export async function carryThrough(desk: Desk, begun: readonly Begun[], reason: string): Promise<readonly Ended[]> {
  const ended: Ended[] = []
  // What is to go makes room for what is to come: a file where the graph has a folder, a folder where it has a file.
  for (const phase of PHASES)
    for (const turn of inTurns(begun.filter(({ deed }) => phaseOf(deed) === phase)))
      await eachOf(turn, AT_ONCE, async (one) => void ended.push({ ...one, result: await performed(desk, one.deed) }))
  await makeDurable(desk, ended)
  const told: Ended[] = []
  for (const run of new Set(ended.map(({ deed }) => deed.run)))
    for (const chunk of inChunks(ended.filter(({ deed }) => deed.run === run)))
      told.push(...(await commitEnd(desk, chunk, reason, run)))
  return told
}

/** Goes on with what a crash cut off. What has changed meanwhile is left as it is: the next scan finds it again. */
export const recover = (desk: Desk): Promise<void> => goOn(desk, () => true, 'finished what a restart had cut off')

/** Goes on with what we have begun and the store's failing cut off; others may be busy with what they have begun. */
export async function finish(desk: Desk): Promise<void> {
  if (desk.begun.size === 0) return
  await load(desk)
  await goOn(desk, ({ deed_id }) => desk.begun.has(deed_id), 'finished what the store had cut off')
  desk.begun.clear()
}

async function goOn(desk: Desk, isOurs: (deed: Deed) => boolean, reason: string): Promise<void> {
  const begun = [...recorded(desk)].flatMap((record) =>
    record.deed && isOurs(record.deed) ? [{ record, deed: record.deed }] : [],
  )
  await carryThrough(desk, begun, reason)
}

export const pathsOf = (deed: Deed): readonly string[] => [...writtenBy(deed), ...deed.records.map(({ path }) => path)]

const writtenBy = ({ operations }: Deed): readonly string[] =>
  operations.flatMap((operation) => (operation.op === 'move' ? [operation.path, operation.to] : [operation.path]))

const PHASES = ['remove', 'move', 'put', 'replace'] as const
const phaseOf = ({ operations }: Deed): (typeof PHASES)[number] =>
  PHASES.findLast((phase) => operations.some((operation) => phaseOfOne(operation) === phase)) ?? 'put'
/** A folder gives way last: a file that was renamed into it, and has changed, leaves it only once it is back in its place. */
const phaseOfOne = (operation: FileOperation): (typeof PHASES)[number] =>
  operation.op === 'put' && operation.expect?.type === 'folder' ? 'replace' : operation.op

/** A file that has the name of a folder leaves it before another file goes back into that folder. */
function inTurns(begun: readonly Begun[]): readonly (readonly Begun[])[] {
  const leaving = new Set(begun.flatMap(({ deed }) => deed.operations.map(({ path }) => path)))
  const hasToWait = ({ deed }: Begun) =>
    deed.operations.some(
      (one) => one.op === 'move' && foldersOf(one.to).some((folder) => folder !== one.path && leaving.has(folder)),
    )
  const later = begun.filter(hasToWait)
  if (later.length === 0 || later.length === begun.length) return [begun]
  return [begun.filter((one) => !hasToWait(one)), ...inTurns(later)]
}

async function performed(desk: Desk, deed: Deed): Promise<Ended['result']> {
  for (const [i, operation] of deed.operations.entries()) {
    try {
      const result = await operate(desk.root, operation, {
        now: desk.clock.now,
        content: (digest) => contentOf(desk, digest),
        temporary: `.mplp-${deed.deed_id}-${i}.tmp`,
      })
      if (result !== 'done') return result
    } catch (error) {
      return { error: (error as NodeJS.ErrnoException).code ?? String(error) } // the disk is full, or may not be written to
    }
  }
  return 'done'
}

/** Renames and removals outlive a crash once their folders do: each folder once, and before anybody says that it is done. */
async function makeDurable({ root }: Desk, ended: readonly Ended[]): Promise<void> {
  const paths = ended.flatMap(({ deed }) => writtenBy(deed))
  const folders = new Map(paths.map((path) => [parentOf(path), path]))
  await eachOf(folders.values(), AT_ONCE, async (path) => {
    await root.held(path, {}, (place) => place.sync()).catch(unlessElsewhere) // it is gone itself: nothing in it to keep
  })
}

async function commitEnd(
  desk: Desk,
  ended: readonly Ended[],
  reason: string,
  run: string | undefined,
): Promise<readonly Ended[]> {
  const done = ended.filter(({ result }) => result === 'done').map(({ deed }) => deed)
  const seen = new Map<string, Observed | undefined>()
  await eachOf(new Set(done.flatMap(stirredBy)), AT_ONCE, async (path) => void seen.set(path, await shown(desk, path)))
  let told = ended
  const ending = () => {
    told = ended.map((one) =>
      one.result === 'done' && !isBelievedStill(desk, one) ? { ...one, result: 'overtaken' } : one,
    )
    return told.flatMap((one) => [...(one.result === 'done' ? becomes(one.deed) : []), ...closing(desk, one)])
  }
  const becomes = ({ records }: Deed) =>
    records.flatMap(({ path, record }) => believing(desk, path, record && agreedRecord(record, seen.get(path))))
  const findings = ended.map(({ record }) => record)
  await commitOn(desk, findings, ending, reason, run === undefined ? {} : { run })
  for (const { deed } of ended) desk.begun.delete(deed.deed_id)
  for (const { record, result } of told) if (result === 'done') desk.findings.delete(record.finding_id)
  for (const { path } of done.flatMap(({ records }) => records)) if (!seen.has(path)) desk.seen.delete(path)
  for (const [path, there] of seen) note(desk, path, there)
  return told
}

/** Does the graph still believe what it did when this began? What another process has an action write meanwhile is newer than our word. */
const isBelievedStill = (desk: Desk, { record: { path, from = path, believed: then }, deed }: Begun): boolean =>
  deed.records.every((one) => isAs(believed(desk, one.path), one.path === from ? then : undefined))

/** Where the disk has to be looked at: what was accepted as it lies there need not be. */
const stirredBy = (deed: Deed): readonly string[] =>
  deed.operations.length > 0 ? pathsOf(deed) : deed.records.flatMap(({ path, record }) => (record ? [] : [path]))

function closing(desk: Desk, { record, deed, result }: Ended): readonly Change[] {
  const { finding_id: id } = record
  if (!isOnRecord(desk, record)) return []
  // What a way back could not do is no longer its own: the look that follows finds it, shows it and asks.
  if (result === 'done' || deed.run !== undefined)
    return [...withdrawn(desk, id), ...becoming(desk, 'finding', id, null)]
  // Its question was withdrawn, or the approval used up, when the deed began: the next one asks anew.
  return [
    ...withdrawn(desk, id),
    { kind: 'node_update', node: 'finding', id, set: { deed: undefined, confirm_id: undefined } },
  ]
}

/** A record with what the disk says of it now; when somebody has changed it already, with what we made of it. */
function agreedRecord(next: FileRecord, there: Observed | undefined): FileRecord {
  if (there && isSameShape(there, next)) return { ...next, kept: next.kept || there.kept, agreed: agreedOn(there) }
  if (next.agreed && isSameShape(next.agreed, next)) return next
  const { type, digest, size, mode, kept } = next
  return { ...next, agreed: { type, digest, size, mode, kept, mtime_ms: 0, ctime_ms: 0, ino: 0 } }
}

async function shown(desk: Desk, path: string): Promise<Observed | undefined> {
  return observed(desk, path).catch((error) => {
    if (error instanceof Elsewhere) return believed(desk, path)?.agreed // being written to again: the next look sees it
    throw error
  })
}
