import { type Clock, isoNow } from '../protocol/clock.ts'
import { META } from '../protocol/meta.ts'
import type { Confirm } from '../protocol/types.ts'
import type { Change } from './change.ts'

/** What a Confirm asks people about, and on whose behalf. */
type Asks = Pick<Confirm, 'confirm_id' | 'target_type' | 'target_id' | 'requested_by_role' | 'reason'>

/** Puts a question to people: a Confirm that nobody has decided on yet. `group` is needed where what it asks about is in no graph. */
export const newConfirm = (clock: Pick<Clock, 'now'>, asks: Asks, group?: string): Change => ({
  kind: 'node_add',
  node: 'confirm',
  id: asks.confirm_id,
  ...(group !== undefined && { group }),
  data: {
    meta: META,
    ...asks,
    status: 'pending',
    requested_at: isoNow(clock),
    decisions: [],
  },
})
