import { pino } from 'pino'
import { expect, it } from 'vitest'
import { logSink } from '../../src/bus/log-sink.ts'
import { delivery } from '../contracts/transport-contract.ts'

it('writes one line per event with pino, without its payload', () => {
  const lines: string[] = []
  const sink = logSink(pino({ base: null, timestamp: false }, { write: (line) => void lines.push(line) }))
  sink(delivery(7, { graph: 'graph-7', event: { stage_status: 'running', payload: { secret: 'kept out' } } }))
  sink(delivery(8, { plan: undefined, family: undefined }))
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      level: 30,
      msg: 'context_intent_received',
      event_id: delivery(7).event.event_id,
      event_type: 'context_intent_received',
      event_family: 'intent',
      timestamp: '2026-01-01T00:00:00.000000Z',
      graph_id: 'graph-7',
      plan_id: 'p',
      stage_status: 'running',
      revision: 7,
      index: 0,
      position: delivery(7).position,
    },
    expect.not.objectContaining({ plan_id: expect.anything(), event_family: expect.anything() }),
  ])
})
