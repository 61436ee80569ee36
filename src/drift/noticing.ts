import type { FindingRecord } from '../psg/change.ts'
import { answer, isOnRecord } from './ask.ts'
import { finish } from './deeds.ts'
import { becoming, commit, type Desk, recorded } from './desk.ts'
import { endsOf, type Looked, look } from './look.ts'
import type { Strategy } from './policy.ts'
import { ask, type By, type Reconciled, settle } from './settle.ts'
import type { TrackOptions } from './tracker.ts'

/** What is done about findings. None of it may go on beside another. */
export interface Noticing {
  /** Looks at paths, thoroughly whatever their times say, and settles by rule what is new. */
  look(paths: readonly string[], thorough?: boolean): Promise<Looked>
  /** What a rule could not settle is tried again with the next look: what was in the way may be gone. */
  again(): void
  /** Settles by rule what is on record. */
  applyRules(records: readonly FindingRecord[]): Promise<void>
  /** Does what people have said about these questions, as far as the findings are still what they were asked about. */
  takeIn(confirms: ReadonlySet<string>): Promise<void>
  /** Looks at findings once more, and settles those that are still there. */
  settle(records: readonly FindingRecord[], strategy: Strategy, by: By): Promise<readonly Reconciled[]>
}

export function noticing(
  desk: Desk,
  { onFindings, onReconciled }: Pick<TrackOptions, 'onFindings' | 'onReconciled'>,
): Noticing {
  /** Findings that no rule has been applied to, or not to the end: they are seen to with the next look. */
  const left = new Set<string>()
  const stuck = new Set<string>()

  async function settled(
    records: readonly FindingRecord[],
    strategy: Strategy,
    by: By,
  ): Promise<readonly Reconciled[]> {
    const { results, news } = await settle(
      desk,
      records.map(({ finding_id }) => finding_id),
      strategy,
      by,
    )
    if (results.length > 0) onReconciled?.(results)
    if (news.length > 0) onFindings?.(news)
    for (const { finding_id } of news) left.add(finding_id)
    for (const { finding, outcome } of results) putAside(finding, outcome)
    return results
  }

  /** Overtaken, and perhaps by what was on record already, which is no news; or it has lost its question, and nothing was done. */
  function putAside(finding: FindingRecord, outcome: Reconciled['outcome']): void {
    const isUndone = outcome === 'refused' || outcome === 'failed'
    if (outcome === 'overtaken' || (isUndone && desk.verdictOn(finding).strategy === 'ask'))
      left.add(finding.finding_id)
    else if (isUndone) stuck.add(finding.finding_id)
  }

  async function applyRules(records: readonly FindingRecord[]): Promise<void> {
    for (const strategy of ['files', 'graph', 'merge', 'ask'] as const) {
      const ruled = records.filter((record) => desk.verdictOn(record).strategy === strategy)
      const isAsked = ({ confirm_id }: FindingRecord) => strategy === 'ask' && confirm_id !== undefined
      await settled(
        ruled.filter((record) => !isAsked(record)),
        strategy,
        { reason: `reconciled by rule: ${strategy}` },
      )
    }
  }

  function takeLeft(): readonly FindingRecord[] {
    const records = [...recorded(desk)].filter(({ finding_id }) => left.has(finding_id))
    left.clear()
    return records
  }

  async function lookAt(paths: readonly string[], thorough?: boolean): Promise<Looked> {
    await finish(desk)
    return look(desk, paths, thorough)
  }

  return {
    again() {
      for (const id of stuck) left.add(id)
      stuck.clear()
    },
    applyRules,
    async look(paths, thorough) {
      const before = takeLeft()
      const looked = await lookAt([...paths, ...before.flatMap(endsOf)], thorough)
      if (looked.news.length > 0) onFindings?.(looked.news)
      await applyRules([...looked.news, ...before.filter((record) => isOnRecord(desk, record))])
      return looked
    },
    async takeIn(confirms) {
      const asked = [...recorded(desk)].filter(({ confirm_id }) => confirm_id !== undefined && confirms.has(confirm_id))
      if (asked.length > 0) await lookAt(asked.flatMap(endsOf))
      for (const { finding_id } of asked) {
        const record = desk.graph.get('finding', finding_id)?.data
        const said = record && !record.declined ? await answer(desk.graph, record) : undefined
        if (!record || !said) continue
        if (said.strategy === 'leave') {
          const declined = () => becoming(desk, 'finding', finding_id, { ...record, declined: true })
          await commit(desk, declined, 'people want both left as they are')
          continue
        }
        const gates = new Map([[finding_id, said.gate]])
        const [done] = await settled([record], said.strategy, { reason: `decided: ${said.strategy}`, gates })
        if (done?.outcome === 'refused' || done?.outcome === 'failed')
          await ask(desk, [{ record, conflict: { reason: done.reason! } }]) // it cannot be done as they want it
      }
    },
    async settle(records, strategy, by) {
      await lookAt(records.flatMap(endsOf))
      return settled(records, strategy, by)
    },
  }
}
