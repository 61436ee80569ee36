import { isoNow } from '../../protocol/clock.ts'
import type { JsonObject } from '../../protocol/json.ts'
import type { Change } from '../../psg/change.ts'
import { addingTo, creating, making, moving } from './intents.ts'
import { graphOf, type Maker, type Module, onlyFields, textOf } from './module.ts'

const make: Maker = (given, ground) => {
  const trace_id = (given.trace_id as string | undefined) ?? ground.clock.uuid()
  const context_id = given.context_id as string
  const root_span = { trace_id, span_id: ground.clock.uuid(), ...(context_id !== undefined && { context_id }) }
  return begun({ trace_id, root_span, ...given }, ground)
}
const begun = making('trace', ({ clock }) => ({ status: 'running', started_at: isoNow(clock) }))

/** What was done, only ever added to. The traces of runs are the runtime's; these are for work that is done elsewhere. */
export const traceModule: Module = {
  make,
  intents: {
    begin: creating('trace', make),
    begin_segment: addingTo('trace', 'segment', (segment, { clock }) => {
      return { segment_id: clock.uuid(), status: 'running', started_at: isoNow(clock), ...segment } as JsonObject
    }),
    async end_segment(input, ground) {
      onlyFields(input, ['trace_id', 'segment_id', 'status', 'attributes'])
      const [id, segment_id] = [textOf(input, 'trace_id'), textOf(input, 'segment_id')]
      const graph = await graphOf('trace', id, ground)
      const data = { status: 'completed', finished_at: isoNow(ground.clock), ...input, segment_id }
      const { trace_id: _, ...end } = data as JsonObject
      const changes = [
        { kind: 'node_add', node: 'segment_end', id: segment_id, owner: id, data: end },
      ] as unknown as Change[]
      return { graph, changes, reason: `segment ${segment_id} ends`, about: { kind: 'trace', id } }
    },
    complete: moving('trace', 'completed', ({ clock }) => ({ finished_at: isoNow(clock) })),
    fail: moving('trace', 'failed', ({ clock }) => ({ finished_at: isoNow(clock) })),
    cancel: moving('trace', 'cancelled', ({ clock }) => ({ finished_at: isoNow(clock) })),
  },
}
