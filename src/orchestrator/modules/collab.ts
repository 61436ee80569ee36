import { isoNow } from '../../protocol/clock.ts'
import type { EventDraft } from '../../psg/change.ts'
import { addingTo, creating, making, moving } from './intents.ts'
import type { Module } from './module.ts'

const make = making('collab', ({ clock }) => ({ status: 'draft', created_at: isoNow(clock) }))

/** Sessions of several participants. A multi-agent run starts and ends its own. */
export const collabModule: Module = {
  make,
  intents: {
    create: creating('collab', make),
    join: addingTo('collab', 'participant', (participant) => participant),
    start: moving('collab', 'active', undefined, (id) => session(id, 'session_started', 'running')),
    suspend: moving('collab', 'suspended'),
    resume: moving('collab', 'active'),
    complete: moving('collab', 'completed', undefined, (id) => session(id, 'session_completed', 'completed')),
    cancel: moving('collab', 'cancelled', undefined, (id) => session(id, 'session_cancelled', 'failed')),
  },
}

const session = (pipeline_id: string, event_type: string, stage_status: string): readonly EventDraft[] => [
  { event: { event_type, event_family: 'pipeline_stage', pipeline_id, stage_id: 'session', stage_status } },
]
