import { RuleViolation } from '../protocol/errors.ts'
import { given } from '../protocol/given.ts'
import type { Confirm, Decision } from '../protocol/types.ts'
import type { Deciding } from '../psg/moves.ts'
import { sameJson } from '../psg/plain.ts'
import type { FlowMemory } from './flow-record.ts'
import type { RunHandle } from './run.ts'
import type { Runtime } from './runtime.ts'

/** Has everything that the module said been taken in, without an answer that stands? Then it is asked again. */
export function isOpen(said: Confirm, stands: Confirm | undefined, { ids }: FlowMemory): boolean {
  if (stands?.status === 'approved' || stands?.status === 'cancelled') return false
  return untaken(said, stands, ids.decision).length === 0
}

/** The confirm module has spoken for people: its decisions become decisions about this very plan, each once. */
export async function decideAs(said: Confirm, runtime: Runtime, run: RunHandle, { ids }: FlowMemory): Promise<void> {
  const { plan_id, context_id } = run
  const graph = await runtime.project.context(context_id)
  for (;;) {
    const stands = await graph.document('confirm', ids.confirm)
    const [next] = untaken(said, stands, ids.decision)
    if (!next || !isOpenToDecisions(stands)) return
    try {
      if (stands.status === 'rejected') await runtime.propose(plan_id, { requested_by_role: said.requested_by_role })
      await runtime.decide(ids.confirm, next)
    } catch (error) {
      if (!(error instanceof RuleViolation)) throw error
      if (run.phase === 'ended') return // somebody withdrew it meanwhile
      if (sameJson(stands, await graph.document('confirm', ids.confirm))) throw error // nobody else has answered meanwhile
    }
  }
}

export const isOpenToDecisions = ({ status }: Confirm): boolean => status === 'pending' || status === 'rejected'

function untaken(said: Confirm, stands: Confirm | undefined, decision: string): readonly Deciding[] {
  const taken = new Set(stands?.decisions?.map((decision) => decision.decision_id))
  return decisionsIn(said, decision).filter(({ decision_id }) => !taken.has(decision_id!))
}

/** What a Confirm that a module made says: its decisions, or its status as the one decision of whoever asked, under the id that is kept for it. */
function decisionsIn(confirm: Confirm, decision_id: string): readonly Deciding[] {
  const { decisions = [], status, requested_by_role, reason } = confirm
  if (decisions.length > 0) return decisions.map(decided)
  if (status === 'pending') return []
  return [{ decision_id, status, decided_by_role: requested_by_role, ...given({ reason }) }]
}

const decided = ({ decision_id, status, decided_by_role, reason }: Decision): Deciding => ({
  decision_id,
  status,
  decided_by_role,
  ...given({ reason }),
})
