import { describe, expect, it } from 'vitest'
import { memoryTransport } from '../../src/bus/memory.ts'
import { runSingleAgentFlow } from '../../src/orchestrator/single-agent.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { call, contextDocument, saying } from '../support/agents.ts'
import { inTime } from '../support/on-a-clock.ts'

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
