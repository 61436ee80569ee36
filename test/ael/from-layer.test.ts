import { describe, expect, it } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Action, Adapter, Call, Outcome } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { fromLayer } from '../../src/ael/from-layer.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'

const action = (action_type = 'anything') => newAction({ action_type, params: {} })

describe('fromLayer', () => {
  it('does every type that nobody else does, through any object with execute', async () => {
    class Foreign {
      #count = 0
      async execute({ action_type }: Action) {
        return { action_type, count: ++this.#count }
      }
    }
    const own = { action_type: 'mine', executor_kind: 'worker' as const, execute: async () => ({ output: 'own' }) }
    const layer = actionLayer({ adapters: [fromLayer('*', new Foreign()), own] })
    expect((await layer.execute(action())).output).toEqual({ action_type: 'anything', count: 1 })
    expect((await layer.execute(action('mine'))).output).toBe('own')
  })

  it('lets a layer stand inside another, with one depth and one time for both', async () => {
    const inner = actionLayer({
      maxDepth: 20,
      adapters: [
        {
          action_type: 'deep',
          executor_kind: 'worker',
          execute: async (asked, call) => ({
            output: [call.depth, (await call.act({ ...asked, action_type: 'flat' })).output ?? null],
          }),
        },
        { action_type: 'flat', executor_kind: 'worker', execute: async (_, call) => ({ output: call.depth }) },
      ],
    })
    const around = (execute: (asked: Action, call: Call) => Promise<Outcome>): Adapter => ({
      action_type: 'outer',
      executor_kind: 'worker',
      execute,
    })
    const layer = actionLayer({
      adapters: [
        around(async (asked, call) => ({ output: (await call.act({ ...asked, action_type: 'deep' })).output ?? null })),
        fromLayer('*', inner),
      ],
    })
    expect((await layer.execute(action('outer'))).output).toEqual([1, 2])
    const controller = new AbortController()
    controller.abort()
    await expect(layer.execute(action('deep'), { signal: controller.signal })).rejects.toMatchObject({
      code: 'action_aborted',
    })
    await inner.close()
    await expect(layer.execute(action('deep'))).rejects.toThrow(/closed/)
  })

  it('takes the published in-memory answer as it is', async () => {
    const asked = action()
    const layer = actionLayer({
      adapters: [fromLayer('*', { execute: async (given) => ({ status: 'executed', action: given }) })],
    })
    expect((await layer.execute(asked)).output).toEqual({ status: 'executed', action: asked })
  })

  it('opens a result in the published shape', async () => {
    const token_usage = { prompt: 1, completion: 2, total: 3 }
    const execute = async ({ action_id }: Action) => ({
      action_id,
      status: 'completed',
      output: { a: 1 },
      duration_ms: 5,
      token_usage,
      cost: 2,
    })
    const layer = actionLayer({ adapters: [fromLayer('*', { execute })] })
    expect(await layer.execute(action())).toMatchObject({ output: { a: 1 }, token_usage, cost: 2 })
  })

  it.each([
    [
      { status: 'failed', error: 'no luck' },
      { code: 'action_failed', message: 'no luck', retryable: false },
    ],
    [
      { status: 'failed', error: { message: 'busy', retryable: true } },
      { code: 'action_failed', message: 'busy', retryable: true },
    ],
    [{ status: 'cancelled' }, { code: 'action_aborted' }],
    [
      { status: 'error', error: 'no luck' },
      { code: 'action_failed', message: 'no luck', retryable: false },
    ],
    [{ status: 'timeout' }, { code: 'action_failed', message: 'the layer answered timeout' }],
  ])('throws what a result of %j means', async (result, error) => {
    const execute = async ({ action_id }: Action) => ({ action_id, ...result })
    const layer = actionLayer({ adapters: [fromLayer('*', { execute })] })
    await expect(layer.execute(action())).rejects.toMatchObject(error)
  })

  it('refuses what has no execute', () => {
    expect(() => fromLayer('*', {} as never)).toThrow(InvalidInput)
    expect(() => fromLayer('*', null as never)).toThrow(InvalidInput)
  })
})
