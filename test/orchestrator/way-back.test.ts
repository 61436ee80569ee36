import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { type Tool, toolRegistry } from '../../src/ael/tool-registry.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { flowOf, having } from '../support/flows.ts'
import { door, inTime, noted, until, world } from '../support/on-a-clock.ts'

const boom = () => {
  throw new Error('boom')
}
const undoneBy = (name: string, args: Json = null) => ({
  inverse: { action_type: 'function', params: { name, args } },
})

describe('the way back', () => {
  it('includes what was done while the failure was written down', async () => {
    const called: string[] = []
    const [acted, blobs] = [door(), door()]
    const functions: { readonly [name: string]: FunctionSpec } = {
      make: () => 'x'.repeat(200_000),
      act: () => void acted.open(),
      boom: () => acted.opened.then(boom),
      undo: () => void called.push('undo'),
    }
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter(functions)] })
    const { start, clock } = world({}, { layer })
    // What takes `act` back is known only when the large output has been read, which takes until the run has failed.
    const runtime = await start({}, (store) => ({
      ...store,
      getBlob: (digest) => blobs.opened.then(() => store.getBlob(digest)),
    }))
    const flow = flowOf({
      make: {},
      act: { after: ['make'] },
      boom: { after: ['make'], binding: { on_failure: 'compensate' } },
    })
    const { make, act } = flow.ids
    const steps = flow.bindings!.steps!
    const bindings = { steps: { ...steps, [act!]: { ...steps[act!]!, ...undoneBy('undo', { $from: make! }) } } }
    const run = await runtime.submit({ ...flow, bindings })
    const graph = await runtime.project.context(run.context_id)
    await until(clock, () => graph.get('run', run.run_id)?.data.ending !== undefined)
    blobs.open()
    const { status, undone } = await inTime(clock, run.result())
    expect({ status, undone }).toMatchObject({ status: 'failed', undone: [{ step_id: act, status: 'undone' }] })
    expect(called).toEqual(['undo'])
    await inTime(clock, runtime.close())
  })

  it('begins with what was done last, also when the run was laid down in between', async () => {
    const called: Json[] = []
    const made = () => 'made'
    const functions = { a: made, b: made, c: made, boom, undo: (name: Json) => void called.push(name) }
    const { start, clock } = world(functions)
    const runtime = await start()
    const run = await runtime.submit(
      flowOf({
        a: { binding: undoneBy('undo', 'a') },
        b: { after: ['a'], binding: undoneBy('undo', 'b') },
        wait: { after: ['b'], binding: { action_type: 'wait', params: { ms: 5_000 } } },
        c: { after: ['wait'], binding: undoneBy('undo', 'c') },
        boom: { after: ['c'], binding: { on_failure: 'compensate' } },
      }),
    )
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed' })
    expect(called).toEqual(['c', 'b', 'a'])
    await inTime(clock, runtime.close())
  })

  it('is not denied for the budget that its run has used up', async () => {
    const called: string[] = []
    const functions = { make: () => 'made', boom, undo: () => void called.push('undo') }
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [functionAdapter(functions)] })
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const steps = { make: { binding: undoneBy('undo') }, boom: { after: ['make'] } }
    const run = await runtime.submit(flowOf(steps, { options: { budget: { actions: 1 }, on_failure: 'compensate' } }))
    expect(await inTime(clock, run.result())).toMatchObject({
      error: { code: 'budget_exceeded' },
      undone: [{ status: 'undone' }],
    })
    expect(called).toEqual(['undo'])
    await inTime(clock, runtime.close())
  })

  it('is told to end as what it began as when another process finds it cut off', async () => {
    const reached = door()
    const unmaking: Adapter = {
      action_type: 'unmake',
      executor_kind: 'external',
      label: () => 'unmaking',
      execute() {
        reached.open()
        return new Promise(() => undefined)
      },
    }
    const { start, clock } = world({}, { layer: having({ make: () => 'made', boom }, unmaking).layer })
    const first = await start()
    const run = await first.submit(
      flowOf({
        make: { binding: { inverse: { action_type: 'unmake', executor_kind: 'external', params: {} } } },
        boom: { after: ['make'], binding: { on_failure: 'compensate' } },
      }),
    )
    await inTime(clock, reached.opened)
    first.die()
    const done: Adapter = { ...unmaking, execute: async () => ({ output: null }) }
    const second = await start(having({ make: () => 'made', boom }, done))
    const again = await second.get(run.run_id)
    expect(await inTime(clock, again.result())).toMatchObject({ undone: [{ status: 'undone' }] })
    const told: JsonObject[] = []
    for await (const { event } of again) if (event.event_family === 'runtime_execution') told.push(event)
    const cutOff = told.find(({ payload }) => (payload as JsonObject).interrupted)!
    const payload = { action_type: 'unmake', operation: 'unmaking' }
    const both = told.filter(({ execution_id }) => execution_id === cutOff.execution_id)
    expect(both).toMatchObject([
      { executor_kind: 'external', payload },
      { executor_kind: 'external', payload },
    ])
    await inTime(clock, second.close())
  })

  it('is gone to its end by a run that somebody cancels meanwhile', async () => {
    const [reached, allowed] = [door(), door()]
    const { start, clock } = world({
      make: () => 'made',
      boom,
      unmake: () => {
        reached.open()
        return allowed.opened.then(() => null)
      },
    })
    const runtime = await start()
    const run = await runtime.submit(
      flowOf({
        make: { binding: undoneBy('unmake') },
        boom: { after: ['make'], binding: { on_failure: 'compensate' } },
      }),
    )
    await inTime(clock, reached.opened)
    await runtime.cancel(run.run_id)
    allowed.open()
    expect(await inTime(clock, run.result())).toMatchObject({ status: 'failed', undone: [{ status: 'undone' }] })
    await inTime(clock, runtime.close())
  })

  it('asks nobody: what needs approval is denied, and does not seem to wait for it', async () => {
    const { called, functions } = noted('make')
    const release: Tool = {
      name: 'shop.release',
      description: 'Puts it back',
      input: { type: 'object' },
      policy: 'ask',
      execute: () => void called.push('release'),
    }
    const { layer } = having({ ...functions, boom }, toolAdapter(toolRegistry([release])))
    const { start, clock } = world({}, { layer })
    const runtime = await start()
    const inverse = { action_type: 'tool_call', params: { tool_name: 'shop.release', tool_args: {} } }
    const run = await runtime.submit(
      flowOf({ make: { binding: { inverse } }, boom: { after: ['make'], binding: { on_failure: 'compensate' } } }),
    )
    const message = expect.stringContaining('nobody is asked on the way back')
    const { undone } = await inTime(clock, run.result())
    expect(undone).toMatchObject([{ status: 'failed', error: { code: 'action_denied', message } }])
    const graph = await runtime.project.context(run.context_id)
    expect((await inTime(clock, rollback({ graph, layer }, run.run_id))).left).toMatchObject([{ reason: message }])
    expect([called, await runtime.waiting()]).toEqual([['make'], []])
    await inTime(clock, runtime.close())
  })

  it.each<[string, NonNullable<Adapter['inverse']>, string]>([
    ['throws', () => boom(), 'boom'],
    ['gives no action', () => ({}) as never, 'action_type is missing'],
    ['gives a promise', async () => boom() as never, 'must be said at once'] as never,
  ])(
    'leaves what was done, once, and says why, where an adapter that should say what takes it back %s',
    async (_, inverse, why) => {
      const made: string[] = []
      const making: Adapter = {
        action_type: 'make',
        executor_kind: 'external',
        inverse,
        async execute({ action_id }) {
          made.push(action_id)
          return {}
        },
      }
      const { layer } = having({ boom }, making)
      const { start, clock } = world({}, { layer })
      const runtime = await start()
      const retry = { strategy: 'fixed', max_attempts: 3, delay_ms: 0 } as const
      const run = await runtime.submit(
        flowOf({
          make: { binding: { action_type: 'make', params: {}, retry } },
          boom: { after: ['make'], binding: { on_failure: 'compensate' } },
        }),
      )
      const reason = expect.stringMatching(`^nobody can say what takes it back: .*${why}`)
      const { error, undone } = await inTime(clock, run.result())
      expect(error).toMatchObject({ message: 'boom' })
      expect(undone).toMatchObject([{ action_id: made[0], status: 'irreversible', reason }])
      const graph = await runtime.project.context(run.context_id)
      const { plan, left } = await inTime(clock, rollback({ graph, layer }, run.run_id))
      expect(plan.irreversible).toEqual([{ action_id: made[0], step_id: expect.any(String), reason }])
      expect(left).toEqual([{ what: 'effect', name: made[0], reason }])
      expect([made.length, await graph.verify()]).toEqual([1, []])
      await inTime(clock, runtime.close())
    },
  )

  it('is gone by a run that is to compensate also when only steps failed that let the others go on', async () => {
    const { called, functions } = noted('make', 'unmake')
    const { start, clock } = world({ ...functions, boom })
    const runtime = await start()
    const run = await runtime.submit(
      flowOf(
        { boom: { binding: { on_failure: 'continue' } }, wait: waits(1_000), make: make(['wait']) },
        { options: { on_failure: 'compensate' } },
      ),
    )
    expect(await inTime(clock, run.result())).toMatchObject({
      status: 'failed',
      error: { code: 'step_failed' },
      undone: [{ status: 'undone' }],
    })
    expect(called).toEqual(['make', 'unmake'])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, runtime.close())
  })
})

const waits = (ms: number) => ({ binding: { action_type: 'wait', params: { ms } } })
const make = (after: readonly string[]) => ({ after, binding: undoneBy('unmake') })
