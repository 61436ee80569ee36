import type { Change, Deed, FileRecord } from '../psg/change.ts'
import { sameJson } from '../psg/plain.ts'
import { changedBy, untouched } from '../psg/untouched.ts'
import { compare, fileId, isAs, isSameShape } from './compare.ts'
import { type Begun, begin, carryThrough, type Ended, pathsOf } from './deeds.ts'
import { outline } from './describe.ts'
import { becoming, believed, believing, commit, type Desk, load, observedAt } from './desk.ts'
import { look, note } from './look.ts'
import type { Observed } from './observe.ts'
import type { Operated } from './operate.ts'
import { agreedOn, resolve } from './reconcile.ts'
import type { FileReturn } from './rollback.ts'

export interface TakingBack {
  readonly files: readonly FileReturn[]
  /** Everything else that goes back in the same commit. */
  readonly changes: readonly Change[]
  /** The revision that all of it was planned at. Throws RevisionConflict when somebody has changed any of it since: plan again. */
  readonly revision: number
  /** The run that is taken back: what brings its files back counts as its own, not as somebody else's change of them. */
  readonly run: string
  readonly actor: string
  readonly reason: string
}

export interface TakenBack {
  readonly path: string
  readonly result: Operated | { readonly error: string }
}

/**
 * Brings graph and files back together: one commit says what the graph believes again and what is to be written, then it is written. A crash in
 * between is finished by the next start.
 */
export async function takeBack(desk: Desk, taking: TakingBack): Promise<readonly TakenBack[]> {
  await load(desk)
  const [before, there] = [new Map<string, FileRecord>(), new Map<string, Observed>()]
  const paths = taking.files.map(({ path }) => path)
  const seen = await observedAt(desk, paths)
  const begun: Begun[] = []
  const results: TakenBack[] = []
  for (const { path, now, before: record } of taking.files) {
    const file = seen.get(path)
    if (!isAs(file, now) && !isAs(file, record)) {
      results.push({ path, result: 'overtaken' }) // somebody has saved it since it was planned
      continue
    }
    if (record) before.set(path, record)
    if (file) there.set(path, file)
  }
  for (const finding of compare(before, there)) {
    const resolution = resolve(finding, 'graph', { content: () => undefined })
    if (resolution.outcome === 'refused') results.push({ path: finding.path, result: resolution.reason })
    if (!('operations' in resolution)) continue
    const { operations, records } = resolution
    const deed: Deed = { deed_id: desk.clock.uuid(), strategy: 'graph', run: taking.run, operations, records }
    begun.push({ record: { ...outline(desk, finding), deed }, deed })
  }
  const refused = new Set(results.map(({ path }) => path))
  const going = taking.files.filter(({ path }) => !refused.has(path))
  const beliefs = going.map(({ path, before: record }) => ({
    path,
    was: believed(desk, path) ?? null,
    becomes: record && asNow(record, there.get(path)),
  }))
  const refuseIfTouched = await untouched(desk.graph, taking.revision, [
    ...changedBy(taking.changes),
    ...paths.map((path) => ['file', fileId(path)] as const),
    ...begun.map(({ record }) => ['finding', record.finding_id] as const),
  ])
  const deciding = () => {
    refuseIfTouched()
    return [
      ...taking.changes,
      ...beliefs.flatMap(({ path, becomes }) => believing(desk, path, becomes)),
      ...begun.flatMap(({ record }) => becoming(desk, 'finding', record.finding_id, record)),
    ]
  }
  const { actor, reason, run } = taking
  await begin(desk, begun, () => commit(desk, deciding, reason, { actor, run }))
  for (const path of paths) note(desk, path, seen.get(path))
  const ended = await carryThrough(desk, begun, reason)
  const failed = new Set(ended.filter(isLeftToTheNext).flatMap(({ deed }) => pathsOf(deed)))
  const asItWas = () =>
    beliefs
      .filter(({ path, becomes }) => failed.has(path) && sameJson(believed(desk, path) ?? null, becomes))
      .flatMap(({ path, was }) => believing(desk, path, was))
  if (failed.size > 0) await commit(desk, asItWas, `${reason}, but for what could not be done`, { actor, run })
  await look(desk, paths)
  return [...results, ...ended.map(({ record: { path }, result }) => ({ path, result }))]
}

/** What the disk did not let go back is the run's as it was before, or nobody would try it again. What can never be done is asked about instead. */
const isLeftToTheNext = ({ result }: Ended): boolean => result === 'overtaken' || typeof result === 'object'

/** A record from back then, with what the disk says now where the file is as it was. */
const asNow = (record: FileRecord, there: Observed | undefined): FileRecord =>
  there && isSameShape(there, record) ? { ...record, agreed: agreedOn(there) } : record
