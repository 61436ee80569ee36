import { isoMicros } from '../../protocol/clock.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { EventDraft } from '../../psg/change.ts'
import { addingTo, creating, making, moving } from './intents.ts'
import type { Ground, Module } from './module.ts'

const now = ({ clock }: Pick<Ground, 'clock'>) => isoMicros(clock.now() * 1000)

const make = making('dialog', (ground) => ({ status: 'active', messages: [], started_at: now(ground) }))

/** Conversations. What a user says is told as an intent. */
export const dialogModule: Module = {
  make,
  intents: {
    open: creating('dialog', make),
    say: addingTo('dialog', 'message', (message, ground) => ({ timestamp: now(ground), ...message }), said),
    pause: moving('dialog', 'paused'),
    resume: moving('dialog', 'active'),
    complete: moving('dialog', 'completed', (ground) => ({ ended_at: now(ground) })),
    cancel: moving('dialog', 'cancelled', (ground) => ({ ended_at: now(ground) })),
  },
}

function said(dialog_id: string, { role, content }: JsonObject): readonly EventDraft[] {
  if (role !== 'user') return []
  const payload = { dialog_id, source: 'dialog', raw_text: content ?? '' }
  return [{ event: { event_type: 'user_message_received', event_family: 'intent', payload } }]
}
