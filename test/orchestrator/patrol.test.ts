import { expect, it } from 'vitest'
import type { Backend } from '../../src/vsl/backend.ts'
import { flowOf } from '../support/flows.ts'
import { inTime, passes, until, world } from '../support/on-a-clock.ts'

const SLEEP = { binding: { action_type: 'wait', params: { ms: 5_000 } } }

it('does not look at a paused run again and again because a time of its steps is over', async () => {
  const { start, clock } = world({})
  const reads: string[] = []
  const seen = (store: Backend): Backend => ({
    ...store,
    read(stream, from) {
      reads.push(stream)
      return store.read(stream, from)
    },
  })
  const worker = await start({}, seen)
  const run = await worker.submit(flowOf({ sleep: SLEEP }, {}, clock))
  await until(clock, () => run.phase === 'waiting')
  await worker.pause(run.run_id)
  await until(clock, () => run.phase === 'paused')
  await passes(clock, 10_000)
  reads.length = 0
  await passes(clock, 60_000)
  expect(reads.filter((stream) => stream === run.context_id)).toEqual([])
  await worker.resume(run.run_id)
  expect(await inTime(clock, run.result())).toMatchObject({ status: 'completed' })
})
