import { expect, it, onTestFinished } from 'vitest'
import { nameSteps } from '../../src/cli/events.ts'
import { openRuntime } from '../../src/compose.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'

it('keeps the names of the latest steps alone, however long it follows', async () => {
  const store = memoryBackend()
  const runtime = await openRuntime({ functions: { greet: () => 'hello' } }, { store })
  onTestFinished(() => runtime.close())
  const flows = ['one', 'two', 'three'].map((name) => flowOf({ [name]: { binding: { params: { name: 'greet' } } } }))
  for (const flow of flows) await (await runtime.submit(flow)).result()
  const names = new Map<string, string>()
  for await (const entry of store.feed({})) nameSteps(entry, names, 2)
  expect([...names.values()]).toEqual(['two', 'three'])
})
