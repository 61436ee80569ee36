import { describe, expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { BusEvent, Delivery } from '../../src/bus/transport.ts'
import { relay } from '../../src/orchestrator/relay.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { freshSchema, suiteNeeds } from '../support/servers.ts'

/** The whole way, once: submit -> plan -> step -> action -> commit -> journal -> relay -> subscriber. */
function walks(name: string, open: () => Promise<Backend>): void {
  describe(`one step of one plan on ${name}`, () => {
    it('goes from submit to subscriber', async () => {
      const store = await open()
      const transport = memoryTransport()
      const received: BusEvent[] = []
      const ended = new Promise<void>((resolve) => {
        void transport.subscribe({}, ({ event }: Delivery) => {
          received.push(event)
          if (event.event_type === 'SACompleted') resolve()
        })
      })
      const relaying = relay({
        store,
        transport,
        name: 'memory',
        clock: systemClock,
        holder: thisHolder(systemClock.uuid()),
      })
      const runtime = await runtimeOf({ greet: () => 'hello' }, { store })
      const flow = flowOf({ greet: {} })

      const result = await (await runtime.submit(flow)).result()
      await ended

      expect(result).toEqual({ success: true, status: 'completed', outputs: { [flow.ids.greet!]: 'hello' } })
      expect(
        received
          .filter((event) => event.event_family === 'pipeline_stage')
          .map((event) => [
            ['plan', 'context'].includes(String(event.stage_id)) ? event.stage_id : 'step',
            event.event_type,
          ]),
      ).toEqual([
        ['context', 'context_activated'],
        ['plan', 'plan_status_changed'],
        ['plan', 'plan_status_changed'],
        ['plan', 'plan_status_changed'],
        ['step', 'confirm_decision_added'],
        ['step', 'step_started'],
        ['step', 'step_completed'],
        ['plan', 'plan_status_changed'],
      ])
      expect(runtime.errors).toEqual([])
      await runtime.close()
      await relaying.close()
      await transport.close()
      await store.close()
    })
  })
}

walks('memory', async () => memoryBackend())
await suiteNeeds('postgres', (url) => walks('postgres', () => postgresBackend({ url, schema: freshSchema() })))
