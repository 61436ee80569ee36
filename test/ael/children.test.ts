import { describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { ChildFlow } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { fromLayer } from '../../src/ael/from-layer.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { ChildRequest } from '../../src/ael/layer.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { ActionError, Refused } from '../../src/protocol/errors.ts'
import type { RunResult } from '../../src/protocol/run-result.ts'
import { turn } from './calls.ts'

const FLOW = { chosen: { run: 'r' } } as ChildFlow
const DONE: RunResult = { success: true, status: 'completed', outputs: { s: 'done' } }
const IN_RUN = { run: { context_id: 'c', plan_id: 'p', step_id: 's', trace_id: 't' }, role: 'writer' }

const parent: FunctionSpec = async (_args, { child }) => (await child(FLOW)).outputs
/** A child that ends when it is told to. */
function running() {
  let end = () => {}
  const ended = new Promise<RunResult>((resolve) => {
    end = () => resolve(DONE)
  })
  return { ended, end }
}
const call = (name: string, more = {}) => newAction({ action_type: 'function', params: { name }, ...more })

describe('a child of an action', () => {
  it('is asked for under the name of the action and its run, and given as it ended', async () => {
    const asked: [ChildFlow, ChildRequest][] = []
    const layer = actionLayer({
      adapters: [functionAdapter({ parent })],
      child: async (...request) => {
        asked.push(request)
        return DONE
      },
    })
    const action = call('parent')
    expect((await layer.execute(action, IN_RUN)).output).toEqual({ s: 'done' })
    const { action_id } = action
    const whose = { action_id, execution_id: expect.any(String), signal: expect.any(AbortSignal), ...IN_RUN }
    expect(asked).toEqual([[FLOW, whose]])
  })

  it('is waited for without the timeout running on', async () => {
    const clock = manualClock()
    const { ended, end } = running()
    const layer = actionLayer({ clock, adapters: [functionAdapter({ parent })], child: () => ended })
    const result = layer.execute(call('parent', { timeout_ms: 100 }))
    await turn()
    await clock.advance(3_600_000)
    end()
    expect((await result).status).toBe('completed')
  })

  it('belongs to the action of the step, whoever was carried out on the way; and neither has time run on', async () => {
    const clock = manualClock()
    const asked: string[] = []
    const { ended, end } = running()
    const outer: FunctionSpec = async (_args, { act }) => (await act(call('parent', { timeout_ms: 50 }))).output
    const layer = actionLayer({
      clock,
      adapters: [functionAdapter({ parent, outer })],
      child(_flow, { action_id }) {
        asked.push(action_id)
        return ended
      },
    })
    const action = call('outer', { timeout_ms: 100 })
    const result = layer.execute(action)
    await turn()
    await clock.advance(3_600_000)
    end()
    expect((await result).output).toEqual({ s: 'done' })
    expect(asked).toEqual([action.action_id])
  })

  it('is asked of the runtime behind the outer one of two layers', async () => {
    const asked: string[] = []
    const inner = actionLayer({ adapters: [functionAdapter({ parent })] })
    const layer = actionLayer({
      adapters: [fromLayer('*', inner)],
      child: async (_flow, { action_id }) => {
        asked.push(action_id)
        return DONE
      },
    })
    const action = call('parent')
    expect((await layer.execute(action)).output).toEqual({ s: 'done' })
    expect(asked).toEqual([action.action_id])
  })

  it('is refused, with what to do, where no runtime is behind the layer', async () => {
    const layer = actionLayer({ adapters: [functionAdapter({ parent })] })
    const error = await layer.execute(call('parent')).catch((caught) => caught)
    expect(error).toBeInstanceOf(ActionError)
    expect(error).toMatchObject({ retryable: false, cause: expect.any(Refused) })
    expect(error.cause.remedy).toMatch(/hands/)
  })
})
