import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { type FreshStore, inMemory, ownDriver, readFlows, runGolden } from '../../src/golden/golden.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { freshPrefix, freshSchema, suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const FLOWS = await readFlows(fileURLToPath(new URL('../../golden-flows', import.meta.url)))

/** Each process of a flow opens it once more. */
const opening = (open: () => Promise<Backend>): FreshStore => ({ open, dispose: async () => undefined })

function proves(backend: string, open: () => Promise<FreshStore>): void {
  describe(`golden flows on ${backend}`, () => {
    it('all pass', async () => {
      const { results } = await runGolden({ flows: FLOWS, driver: ownDriver({ open }), backends: [backend] })
      expect(results.filter(({ status }) => status !== 'passed')).toEqual([])
      expect(results.length).toBeGreaterThanOrEqual(40)
    }, 240_000)
  })
}

proves('memory', async () => inMemory(memoryBackend()))
proves('file', async () => {
  const path = tempFolder()
  return opening(() => fileBackend({ path: `${path}/state` }))
})
proves('sqlite', async () => {
  const path = `${tempFolder()}/state.db`
  return opening(() => sqliteBackend({ path }))
})
await suiteNeeds('redis', (url) =>
  proves('redis', async () => {
    const prefix = freshPrefix()
    return opening(() => redisBackend({ url, prefix }))
  }),
)
await suiteNeeds('postgres', (url) =>
  proves('postgres', async () => {
    const schema = freshSchema()
    return opening(() => postgresBackend({ url, schema, poolSize: 3 }))
  }),
)
