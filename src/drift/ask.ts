import type { Clock } from '../protocol/clock.ts'
import { given } from '../protocol/given.ts'
import type { Digest, JsonObject } from '../protocol/json.ts'
import type { Change, FindingRecord, Gate, Node } from '../psg/change.ts'
import { gateOf, newConfirm } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { move } from '../psg/moves.ts'
import { summary } from './describe.ts'
import { type CommitMore, commit, type Desk } from './desk.ts'
import type { Strategy, Verdict } from './policy.ts'

export interface Asking {
  readonly clock: Clock
  /** Where the question lives: those that are asked together are loaded together. */
  readonly group: string
  readonly verdict: Pick<Verdict, 'approved' | 'rejected'>
  /** Both sides of a merge that did not work out, between markers; where it lies. */
  readonly conflict?: { readonly reason: string; readonly marked?: Digest }
}

/** The question to people about a finding: a decision counts for this very disagreement, shown with its diff. */
export function question(
  record: FindingRecord,
  asking: Asking,
): { readonly confirm_id: string; readonly changes: readonly Change[] } {
  const { clock, group, verdict, conflict } = asking
  const [confirm_id, gate_id] = [clock.uuid(), clock.uuid()]
  const { finding_id, digest, what, path, from, severity, written_by, diff, diff_blob } = record
  const shows: JsonObject = {
    ...given({ finding_id, what, path, from, severity, written_by, diff, diff_blob }),
    ...(conflict && { conflict: { ...conflict } }),
    approved: verdict.approved,
    rejected: verdict.rejected,
  }
  const gate: Gate = { gate_id, confirm_id, target: { kind: 'other', id: finding_id }, digest, needed: 1, shows }
  const asks = {
    confirm_id,
    target_type: 'other',
    target_id: finding_id,
    requested_by_role: 'drift',
    reason: `${summary(record)}; approved: ${SAYING[verdict.approved]}; rejected: ${SAYING[verdict.rejected]}`,
  } as const
  const changes: Change[] = [
    newConfirm(clock, asks, group),
    { kind: 'node_add', node: 'gate', id: gate_id, group, data: gate },
  ]
  return { confirm_id, changes }
}

const SAYING: { readonly [S in Exclude<Strategy, 'ask'> | 'leave']: string } = {
  graph: 'the disk becomes what the graph has',
  files: 'the graph takes what is on the disk',
  merge: 'both sides’ changes are merged',
  leave: 'both stay as they are',
}

/** What people said, if they have: `undefined` while nobody has decided, or when the decision was about something else. */
export async function answer(
  graph: ProjectGraph,
  record: FindingRecord,
): Promise<{ readonly strategy: Exclude<Strategy, 'ask'> | 'leave'; readonly gate: Node<'gate'> } | undefined> {
  const confirm = record.confirm_id === undefined ? undefined : await graph.find('confirm', record.confirm_id)
  const gate = confirm && gateOf(graph, confirm.id)
  if (!confirm || !gate || gate.data.used_by !== undefined || gate.data.digest !== record.digest) return undefined
  const { approved, rejected } = gate.data.shows as { approved: Verdict['approved']; rejected: Verdict['rejected'] }
  if (confirm.data.status === 'approved') return { strategy: approved, gate }
  if (confirm.data.status === 'rejected') return { strategy: rejected, gate }
  return confirm.data.status === 'cancelled' ? { strategy: 'leave', gate } : undefined
}

/** Takes the question about a finding back, if nobody has answered it: what it was about is no longer so. Within `commitOn`. */
export function withdrawn({ graph }: Pick<Desk, 'graph'>, id: string): readonly Change[] {
  const asked = graph.get('finding', id)?.data.confirm_id
  const confirm = asked === undefined ? undefined : graph.get('confirm', asked)
  return confirm?.data.status === 'pending' ? [move('confirm', confirm.id, 'cancelled')] : []
}

/** Is a finding on record as we know it? Another process may have settled it, or have seen the files change again. */
export const isOnRecord = ({ graph }: Pick<Desk, 'graph'>, { finding_id, digest }: FindingRecord): boolean =>
  graph.get('finding', finding_id)?.data.digest === digest

/** Commits what is decided about findings, with the questions about them in memory: also those that another process asks meanwhile. */
export async function commitOn(
  desk: Desk,
  records: readonly Pick<FindingRecord, 'finding_id'>[],
  decide: () => readonly Change[],
  reason: string,
  more?: CommitMore,
): Promise<void> {
  const asked = () => records.flatMap(({ finding_id }) => desk.graph.get('finding', finding_id)?.data.confirm_id ?? [])
  for (;;) {
    const inMemory = new Set(asked())
    await desk.graph.reading(
      [...inMemory].map((id) => ['confirm', id] as const),
      () => undefined,
    )
    const decided = () => {
      if (asked().some((id) => !inMemory.has(id))) throw UNREAD
      return decide()
    }
    try {
      return await commit(desk, decided, reason, more)
    } catch (error) {
      if (error !== UNREAD) throw error
    }
  }
}
const UNREAD = new Error('somebody else has asked')
