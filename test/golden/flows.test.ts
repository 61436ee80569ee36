import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { ownDriver, runGolden } from '../../src/golden/golden.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

const FLOWS = fileURLToPath(new URL('../../golden-flows', import.meta.url))

it('every golden flow passes on memory', async () => {
  const driver = ownDriver({
    async open() {
      const store = memoryBackend()
      return { store, reopen: async () => store, dispose: () => store.close() }
    },
  })
  const { results } = await runGolden({ flows: FLOWS, driver, backends: ['memory'] })
  expect(results.filter(({ status }) => status !== 'passed')).toEqual([])
})
