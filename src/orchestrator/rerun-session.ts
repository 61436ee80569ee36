import { type Clock, isoNow } from '../protocol/clock.ts'
import type { Collab } from '../protocol/types.ts'
import { withIds } from '../psg/fork.ts'
import type { Session, SessionAsked } from './session.ts'

interface Anew {
  readonly collab_id: string
  /** What the steps are called in the plan that goes on. */
  readonly steps: ReadonlyMap<string, string>
  readonly clock: Clock
}

/** A session of its own for a run of several agents that goes on, since the first has ended with its run: the same people in the same mode. */
export function sessionAnew(
  session: Session,
  before: Collab,
  { collab_id, steps, clock }: Anew,
): { readonly collab: Collab; readonly asked: SessionAsked } {
  const { updated_at: _, trace: __, events: ___, ...collab } = before
  return {
    collab: {
      ...collab,
      collab_id,
      mode: session.mode,
      participants: seated(session, before),
      status: 'draft',
      created_at: isoNow(clock),
    },
    asked: { ...askedOf(withIds(session, steps), steps), collab_id },
  }
}

/** Who took part, also who has left the Collab since: what was done is theirs. */
const seated = ({ seats }: Session, { participants }: Collab): Collab['participants'] =>
  seats.map(
    ({ participant_id, role_id, kind }) =>
      participants.find((one) => one.participant_id === participant_id) ?? { participant_id, role_id, kind },
  ) as Collab['participants']

/** What was asked for; what was settled when it was opened is settled again. */
function askedOf(
  { mode: _, purpose: __, seats: ___, conflicts, ...asked }: Session,
  steps: ReadonlyMap<string, string>,
): SessionAsked {
  if (!conflicts?.writes) return { ...asked, ...(conflicts && { conflicts }) }
  const writes = Object.entries(conflicts.writes).map(([step, resources]) => [steps.get(step) ?? step, resources])
  return { ...asked, conflicts: { ...conflicts, writes: Object.fromEntries(writes) } }
}
