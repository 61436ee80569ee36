import { isoNow } from '../../protocol/clock.ts'
import type { JsonObject } from '../../protocol/json.ts'
import { isTerminal } from '../../protocol/lifecycle.ts'
import type { Change, Node } from '../../psg/change.ts'
import type { ProjectGraph } from '../../psg/graph.ts'
import { ofKind } from '../../psg/node.ts'
import { children } from '../../psg/view.ts'
import { addingTo, altering, creating, making, moving } from './intents.ts'
import { graphOf, type Intent, type Maker, type Module, onlyFields, textOf } from './module.ts'

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
    fail: breakingOff('failed'),
    cancel: breakingOff('cancelled'),
  },
}

/** Ends a trace with what is open in it. That of a trace which is completed somebody has to say: nobody else knows how it went. */
function breakingOff(status: 'failed' | 'cancelled'): Intent {
  return altering('trace', [], (id, _input, graph, { clock }) => {
    const finished_at = isoNow(clock)
    const changes = (): readonly Change[] => [
      ...openSegments(graph, id).map(
        ({ id: segment_id, data }): Change => ({
          kind: 'node_add',
          node: 'segment_end',
          id: segment_id,
          owner: id,
          data: { segment_id, status: data.status === 'pending' ? 'skipped' : status, finished_at },
        }),
      ),
      { kind: 'node_update', node: 'trace', id, set: { status, finished_at } },
    ]
    return { changes, reason: `trace ${id} becomes ${status}` }
  })
}

const openSegments = ({ state }: ProjectGraph, trace: string): readonly Node<'segment'>[] =>
  [...ofKind(children(state, 'trace', trace), 'segment')].filter(
    ({ id, data }) => !isTerminal('segment', data.status) && !state.has('segment_end', id),
  )
