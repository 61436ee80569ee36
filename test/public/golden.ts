import { join } from 'node:path'
import { inMemory, ownDriver, readFlows, runGolden } from '../../src/golden/golden.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { type Doors, door, given, making, name, options, saying } from './doors.ts'

const FLOWS = join(import.meta.dirname, '../../golden-flows')
const [flow] = (await readFlows(FLOWS)).filter((each) => each.name === 'execution/happy-path')
const driving = { open: async () => inMemory(memoryBackend()) }
const running = { flows: [flow!], driver: ownDriver(driving), backends: ['memory'] }
const report = given(await runGolden(running))

const runtime = await runtimeOf({})
const run = await runtime.submit(flowOf({ noop: {} }))
await run.result()
await runtime.close()

const INSIDE = 'is called by the runner of flows, with what it has read and checked'

export const golden: Doors = {
  compliance: door(report),
  complianceMarkdown: door(report),
  exportPack: door(given(runtime.project), given(run.run_id), name(join(tempFolder(), 'pack')), options()),
  inMemory: making(INSIDE, given(memoryBackend())),
  ownDriver: making(INSIDE, saying(driving)),
  readFlows: door(given(FLOWS)),
  report: door(report, given('json')),
  runFlow: door(given(flow), given(running.driver), name('memory'), options()),
  runGolden: door(saying(running)),
  verifyPack: door(name(tempFolder())),
}
