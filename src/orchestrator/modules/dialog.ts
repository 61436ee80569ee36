import { isoNow } from '../../protocol/clock.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { EventDraft } from '../../psg/change.ts'
import { addingTo, creating, making, moving } from './intents.ts'
import type { Module } from './module.ts'

const make = making('dialog', ({ clock }) => ({ status: 'active', messages: [], started_at: isoNow(clock) }))

/** Conversations. What a user says is told as an intent. */
export const dialogModule: Module = {
  make,
  intents: {
    open: creating('dialog', make),
    say: addingTo('dialog', 'message', (message, { clock }) => ({ timestamp: isoNow(clock), ...message }), said),
    pause: moving('dialog', 'paused'),
    resume: moving('dialog', 'active'),
    complete: moving('dialog', 'completed', ({ clock }) => ({ ended_at: isoNow(clock) })),
    cancel: moving('dialog', 'cancelled', ({ clock }) => ({ ended_at: isoNow(clock) })),
  },
}

function said(dialog_id: string, { role, content }: JsonObject): readonly EventDraft[] {
  if (role !== 'user') return []
  const payload = { dialog_id, source: 'dialog', raw_text: content ?? '' }
  return [{ event: { event_type: 'user_message_received', event_family: 'intent', payload } }]
}
