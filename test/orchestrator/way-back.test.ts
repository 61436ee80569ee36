import { describe, expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import type { Json } from '../../src/protocol/json.ts'
import { flowOf } from '../support/flows.ts'
import { door, inTime, until, world } from '../support/on-a-clock.ts'

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
    await until(clock, () => graph.get('run', run.run_id)?.data.ending)
    blobs.open()
    const { status, undone } = await inTime(clock, run.result())
    expect({ status, undone }).toMatchObject({ status: 'failed', undone: [{ step_id: act, status: 'undone' }] })
    expect(called).toEqual(['undo'])
    await inTime(clock, runtime.close())
  })

  it('is gone by a run that is to compensate also when only steps failed that let the others go on', async () => {
    const called: string[] = []
    const { start, clock } = world({
      make: () => void called.push('make'),
      unmake: () => void called.push('unmake'),
      boom,
    })
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
