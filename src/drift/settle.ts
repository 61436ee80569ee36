import type { Agreed, Change, Deed, FileRecord, FindingRecord, Node } from '../psg/change.ts'
import { commitOn, isOnRecord, question, withdrawn } from './ask.ts'
import { type Finding, fileId } from './compare.ts'
import { type Begun, begin, carryThrough, type Ended, pathsOf } from './deeds.ts'
import { becoming, contentOf, type Desk, inChunks } from './desk.ts'
import { look } from './look.ts'
import type { Strategy } from './policy.ts'
import { type Clash, type Refusal, type Resolution, resolve, wanted } from './reconcile.ts'

/** What became of a finding. */
export interface Reconciled {
  readonly finding: FindingRecord
  readonly outcome:
    | Resolution['outcome']
    /** People have to decide: the question is `finding.confirm_id`. */
    | 'asked'
    /** Disk or graph changed meanwhile; nothing was done to that, and where they differ now is a finding of its own. */
    | 'overtaken'
    | 'refused'
    | 'failed'
  readonly reason?: string
}

export interface Settled {
  readonly results: readonly Reconciled[]
  /** What the disk came to show where something was not done. */
  readonly news: readonly FindingRecord[]
}

export interface By {
  readonly actor?: string
  readonly reason?: string
  /** The approval that this uses up. */
  readonly gates?: ReadonlyMap<string, Node<'gate'>>
}

interface Job {
  readonly record: FindingRecord
  readonly resolution: Resolution
}

/** Settles findings by a strategy. What is to be written to the disk is committed first, so that a crash leaves nothing half done. */
export async function settle(desk: Desk, ids: readonly string[], strategy: Strategy, by: By): Promise<Settled> {
  const [results, news]: [Reconciled[], FindingRecord[]] = [[], []]
  for (const chunk of inChunks(ids)) {
    const some = await settleSome(desk, chunk, strategy, by)
    results.push(...some.results)
    news.push(...some.news)
  }
  return { results, news }
}

async function settleSome(desk: Desk, ids: readonly string[], strategy: Strategy, by: By): Promise<Settled> {
  const results: Reconciled[] = []
  const jobs: Job[] = []
  const questions: Question[] = []
  for (const id of ids) {
    const record = desk.graph.get('finding', id)?.data
    const finding = desk.findings.get(id)
    if (!record || !finding || finding.digest !== record.digest) continue // it has gone, or a newer one has taken its place
    const settled = strategy === 'ask' ? strategy : await resolved(desk, finding, strategy)
    if (settled === 'ask') questions.push({ record })
    else if (settled.outcome === 'conflict') questions.push({ record, conflict: settled })
    else if (settled.outcome === 'refused') results.push({ finding: record, ...settled })
    else jobs.push({ record, resolution: settled })
  }
  results.push(...(await ask(desk, questions)))
  const done = await carryOut(desk, strategy as Deed['strategy'], jobs, by)
  return { results: [...results, ...done.results], news: done.news }
}

async function resolved(
  desk: Desk,
  finding: Finding,
  strategy: Exclude<Strategy, 'ask'>,
): Promise<Resolution | Clash | Refusal> {
  const base = strategy === 'merge' ? baseOf(desk, finding) : undefined
  const contents = new Map<string, Uint8Array>()
  if (strategy === 'merge')
    for (const digest of wanted(finding, base)) {
      const bytes = contents.get(digest) ?? (await contentOf(desk, digest))
      if (bytes) contents.set(digest, bytes)
    }
  const settled = resolve(finding, strategy, { content: (digest) => contents.get(digest), ...(base && { base }) })
  if ('content' in settled && settled.content) await desk.graph.store.putBlob(settled.content)
  return settled
}

/** What both sides last had in common; of a file that the graph has deleted, its tombstone still knows. */
const baseOf = ({ graph }: Desk, { believed, path }: Finding): Agreed | undefined =>
  believed ? believed.agreed : (graph.state.tombstone('file', fileId(path))?.data as FileRecord | undefined)?.agreed

export interface Question {
  readonly record: FindingRecord
  /** Why it could not be settled without asking, or not as it was decided. */
  readonly conflict?: { readonly reason: string; readonly marked?: string }
}

/** Asks people about findings. A question that waits already is not asked again, unless there is something new to say. */
export async function ask(desk: Desk, questions: readonly Question[]): Promise<readonly Reconciled[]> {
  const { graph, clock } = desk
  const group = clock.uuid()
  const results: Reconciled[] = []
  const fresh: { readonly result: Reconciled; readonly asked: readonly Change[] }[] = []
  for (const { record, conflict } of questions) {
    if (record.confirm_id !== undefined && !conflict && !record.declined) {
      results.push({ finding: record, outcome: 'asked' })
      continue
    }
    const marked = conflict?.marked === undefined ? undefined : await graph.store.putBlob(Buffer.from(conflict.marked))
    const { confirm_id, changes } = question(record, {
      clock,
      group,
      verdict: desk.verdictOn(record),
      ...(conflict && { conflict: { reason: conflict.reason, ...(marked !== undefined && { marked }) } }),
    })
    const { declined: _, ...rest } = record
    const finding = { ...rest, confirm_id }
    fresh.push({ result: { finding, outcome: 'asked', ...(conflict && { reason: conflict.reason }) }, asked: changes })
  }
  let left: typeof fresh = []
  const asking = () => {
    left = fresh.filter(({ result: { finding } }) => isOnRecord(desk, finding))
    return left.flatMap(({ result: { finding }, asked }) => [
      ...withdrawn(desk, finding.finding_id),
      ...becoming(desk, 'finding', finding.finding_id, finding),
      ...asked,
    ])
  }
  const findings = fresh.map(({ result: { finding } }) => finding)
  await commitOn(desk, findings, asking, 'people are asked what to do')
  return [...results, ...left.map(({ result }) => result)]
}

async function carryOut(desk: Desk, strategy: Deed['strategy'], jobs: readonly Job[], by: By): Promise<Settled> {
  const begun = jobs.map(({ record, resolution: { operations, records } }) => ({
    record,
    deed: { deed_id: desk.clock.uuid(), strategy, operations, records },
  }))
  const reason = by.reason ?? `reconciled: ${strategy}`
  const records = jobs.map(({ record }) => record)
  let left: readonly Begun[] = []
  const beginning = () => {
    left = begun.filter(({ record }) => isOnRecord(desk, record))
    return left.flatMap((one) => begins(desk, one, by))
  }
  const more = by.actor === undefined ? {} : { actor: by.actor }
  await begin(desk, begun, () => commitOn(desk, records, beginning, reason, more))
  const ended = await carryThrough(desk, left, reason)
  const undone = ended.filter(({ result }) => result !== 'done')
  const stirred = undone.flatMap(({ deed }) => pathsOf(deed))
  const news = stirred.length > 0 ? (await look(desk, stirred)).news : []
  const outcomes = new Map(jobs.map(({ record, resolution }) => [record.finding_id, resolution.outcome]))
  const results = ended.map(({ record, result }) => reconciled(record, result, outcomes.get(record.finding_id)!))
  return { results, news }
}

/** What is to be done is on record before it is done. An approval serves once; a question settled without an answer is withdrawn. */
function begins(desk: Desk, { record, deed }: Begun, by: By): readonly Change[] {
  const gate = by.gates?.get(record.finding_id)
  const used: readonly Change[] = gate
    ? [{ kind: 'node_update', node: 'gate', id: gate.id, set: { used_by: deed.deed_id } }]
    : withdrawn(desk, record.finding_id)
  if (deed.operations.length === 0) return used
  return [...used, { kind: 'node_update', node: 'finding', id: record.finding_id, set: { deed } }]
}

function reconciled(finding: FindingRecord, result: Ended['result'], outcome: Resolution['outcome']): Reconciled {
  if (result === 'done') return { finding, outcome }
  if (result === 'overtaken') return { finding, outcome: result }
  return typeof result === 'string'
    ? { finding, outcome: 'refused', reason: result }
    : { finding, outcome: 'failed', reason: result.error }
}
