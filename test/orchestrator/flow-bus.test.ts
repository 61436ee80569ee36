import { describe, expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery, Transport } from '../../src/bus/transport.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, contextDocument, newContext, saying } from '../support/agents.ts'
import { door, inTime } from '../support/on-a-clock.ts'

interface Heard {
  readonly bus: Transport
  readonly ids: string[]
}

/** A bus that only publishes; what is thrown at it first is what it says of its first batch. */
function heardBy(refuses?: Error): Heard {
  const ids: string[] = []
  let batches = 0
  const publish = async (batch: readonly Delivery[]) => {
    if (++batches === 1 && refuses) throw refuses
    ids.push(...batch.map(({ event }) => event.event_id))
  }
  return { bus: { publish } as Transport, ids }
}

/** What two calls on one store that are under way at once, each with a bus, were told themselves. */
function twoCalls(buses: readonly Heard[]): Promise<readonly string[][]> {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  const both = door()
  let speaking = 0
  const plan = () => {
    if (++speaking === 2) both.open()
    return both.opened.then(() => ({ output: { title: 'none' } }))
  }
  const answers = buses.map(async ({ bus }, i) => {
    const modules = { ...saying({ context: contextDocument(clock) }), plan }
    const options = call(store, modules, { clock, bus, onError: () => undefined })
    const { events } = await runSingleAgentFlow({ ...options, runtimeContext: newContext(`run ${i}`) })
    return (events as { event_id: string }[]).map((event) => event.event_id)
  })
  return inTime(clock, Promise.all(answers))
}

it('feeds the bus of each of two calls on one store, also where all that a bus can do is publish', async () => {
  const buses = [heardBy(), heardBy()]
  for (const [i, told] of (await twoCalls(buses)).entries()) {
    expect(told.length).toBeGreaterThan(0)
    expect(buses[i]?.ids).toEqual(expect.arrayContaining(told))
  }
})

it.each([
  ['', undefined],
  [', also where it takes a batch only the second time', new Unavailable('the bus', 'later')],
])('tells a bus that two calls share each event once%s', async (_, refuses) => {
  const heard = heardBy(refuses)
  const told = await twoCalls([heard, heard])
  expect(heard.ids.toSorted()).toEqual(told.flat().toSorted())
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
