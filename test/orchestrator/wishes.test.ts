import { expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'

const binding = { action_type: 'wait', params: { signal: 'go' } } as const

it.each<[string, (other: Runtime, run: string) => Promise<void>, string]>([
  ['a signal', (other, run) => other.signal(run, 'go'), 'completed'],
  ['a wish to cancel', (other, run) => other.cancel(run), 'cancelled'],
])('takes in %s that crosses with the laying down of its run', async (_, wish, status) => {
  const store = memoryBackend()
  const layer = () => actionLayer({ adapters: [] })
  const owner = await createRuntime({ store, layer: layer(), quietMs: 100, patrolMs: 20 })
  onTestFinished(() => owner.close())
  const run = await owner.submit(flowOf({ wait: { binding } }))
  const graph = await owner.project.context(run.context_id)
  const phase = () => graph.get('run', run.run_id)?.data.phase
  let isHeld = false
  const other = await createRuntime({
    layer: layer(),
    patrolMs: 20,
    store: {
      ...store,
      async commit(write) {
        if (write.stream === run.context_id && !isHeld) {
          isHeld = true // decided while the run was running; it arrives when the run has been laid down
          await expect.poll(phase).toBe('waiting')
        }
        return store.commit(write)
      },
    },
  })
  onTestFinished(() => other.close())
  expect(phase()).toBe('running')
  await wish(other, run.run_id)
  expect(isHeld).toBe(true)
  expect(await run.result(AbortSignal.timeout(15_000))).toMatchObject({ status })
})
