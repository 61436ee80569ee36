import { isoNow } from '../../protocol/clock.ts'
import type { StageStatus } from '../../protocol/types.ts'
import type { EventDraft } from '../../psg/change.ts'
import { addingTo, creating, type Moved, making, moving, stageOf } from './intents.ts'
import type { Module } from './module.ts'

const make = making('collab', ({ clock }) => ({ status: 'draft', created_at: isoNow(clock) }))

/** Sessions of several participants. A multi-agent run starts and ends its own. */
export const collabModule: Module = {
  make,
  intents: {
    create: creating('collab', make, tell),
    join: addingTo('collab', 'participant', (participant) => participant),
    start: moving('collab', 'active', undefined, tell),
    suspend: moving('collab', 'suspended'),
    resume: moving('collab', 'active', undefined, tell),
    complete: moving('collab', 'completed', undefined, tell),
    cancel: moving('collab', 'cancelled', undefined, tell),
  },
}

/** A session starts once, whatever that was asked for by, and goes on when it was suspended. */
function tell(moved: Moved): readonly EventDraft[] {
  const { from = 'draft', to } = moved
  if (to === 'active') return from === 'draft' ? [session(moved, 'session_started', 'running')] : []
  if (to === 'completed') return [session(moved, 'session_completed', 'completed')]
  return to === 'cancelled' ? [session(moved, 'session_cancelled', from === 'draft' ? 'skipped' : 'failed')] : []
}

const session = (moved: Moved, event_type: string, stage_status: StageStatus): EventDraft =>
  stageOf('collab', moved, { event_type, stage_id: 'session', stage_status })
