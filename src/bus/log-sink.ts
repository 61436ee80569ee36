import { having, needed, refuseUnlessFit } from '../protocol/fields.ts'
import type { Handler } from './transport.ts'

/** As much of a logger as we use; pino has it. */
export interface Logger {
  info(fields: object, message: string): void
}

/** One line per event: what happened, where, and the ids to look it up by; never the payload. Give it to `subscribe`. */
export function logSink(logger: Logger): Handler {
  refuseUnlessFit('log sink', { logger }, { logger: needed(having('a logger: info', 'info')) })
  return ({ position, graph_id, plan_id, revision, index, event }) => {
    const { event_id, event_type, event_family, timestamp, stage_id, stage_status, update_kind, status } = event
    const said = { stage_id, stage_status, update_kind, status }
    const told = Object.entries(said).filter(([, value]) => typeof value === 'string')
    logger.info(
      {
        event_id,
        event_type,
        ...(event_family !== undefined && { event_family }),
        timestamp,
        graph_id,
        ...(plan_id !== undefined && { plan_id }),
        ...Object.fromEntries(told),
        revision,
        index,
        position,
      },
      event_type,
    )
  }
}
