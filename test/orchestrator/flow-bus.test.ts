import { describe, expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery, Transport } from '../../src/bus/transport.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, contextDocument, newContext, saying } from '../support/agents.ts'
import { door, inTime } from '../support/on-a-clock.ts'

it('feeds the bus of each of two calls on one store, also where all that a bus can do is publish', async () => {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const both = door()
  let speaking = 0
  const plan = () => {
    if (++speaking === 2) both.open()
    return both.opened.then(() => ({ output: { title: 'none' } }))
  }
  const answers = ['a', 'b'].map(async (runId) => {
    const heard: string[] = []
    const publish = async (batch: readonly Delivery[]) => void heard.push(...batch.map(({ event }) => event.event_id))
    const modules = { ...saying({ context: contextDocument(clock) }), plan }
    const options = call(store, modules, { clock, bus: { publish } as Transport })
    const { events } = await runSingleAgentFlow({ ...options, runtimeContext: newContext(runId) })
    return { heard, told: (events as { event_id: string }[]).map((event) => event.event_id) }
  })
  for (const { heard, told } of await inTime(clock, Promise.all(answers))) {
    expect(told.length).toBeGreaterThan(0)
    expect(heard).toEqual(expect.arrayContaining(told))
  }
})

describe('a bus of a flow whose store fails', () => {
  it('is not fed any more once the flow is answered', async () => {
    const clock = manualClock()
    let broken = false
    const fails = () => {
      throw new Unavailable('the store', 'later')
    }
    const vsl = new Proxy(memoryBackend({ clock }), {
      get: (target, name) => (broken && name !== 'traits' ? fails : Reflect.get(target, name)),
    })
    const plan = () => {
      broken = true
      throw new Error('no idea')
    }
    const modules = { ...saying({ context: contextDocument(clock) }), plan }
    const options = call(vsl, modules, { clock, bus: memoryTransport(), onError: () => undefined })
    const { error } = await inTime(clock, runSingleAgentFlow(options))
    expect(error).toMatchObject({ code: 'RUNTIME_EXCEPTION', message: 'module plan failed: no idea' })
    expect(clock.sleeping).toBe(0)
  })
})
