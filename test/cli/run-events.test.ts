import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { terminal } from '../../src/cli/io.ts'
import { printEvents } from '../../src/cli/run-events.ts'
import { openRuntime } from '../../src/compose.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { type Call, faultyBackend } from '../support/faulty-backend.ts'
import { flowOf } from '../support/flows.ts'

it('says at the end that events could not be printed, and does not end the run by it', async () => {
  const unheard: unknown[] = []
  const hear = (error: unknown) => unheard.push(error)
  process.on('unhandledRejection', hear)
  onTestFinished(() => void process.off('unhandledRejection', hear))
  let isAway = false
  const away = ({ method }: Call) => (isAway && method === 'read' ? 'refuse' : undefined)
  const store = faultyBackend(memoryBackend(), away, systemClock)
  const runtime = await openRuntime({ functions: { greet: () => 'hello' } }, { store })
  onTestFinished(() => runtime.close())
  const run = await runtime.submit(flowOf({ greet: {} }))
  await run.result()
  const graph = await runtime.project.context(run.context_id)
  const silent = { write: () => undefined }
  const config = async () => ({})
  const io = terminal({ json: true, colour: false, out: silent, err: silent, cwd: '.', signal: never, config })
  isAway = true
  const printing = printEvents(run, graph, io)
  await nextTurn()
  expect(unheard).toEqual([])
  await expect(printing.stop()).rejects.toThrow(Unavailable)
})
const never = new AbortController().signal
