import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { type FreshStore, ownDriver, readFlows, runGolden } from '../../src/golden/golden.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { freshPrefix, freshSchema, suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const FLOWS = await readFlows(fileURLToPath(new URL('../../golden-flows', import.meta.url)))

/** A store that is opened once more, as the next process would. */
async function again(open: () => Promise<Backend>, closesFirst = false): Promise<FreshStore> {
  const opened = [await open()]
  return {
    store: opened[0]!,
    async reopen() {
      if (closesFirst) await opened.pop()?.close()
      const next = await open()
      opened.push(next)
      return next
    },
    dispose: async () => {
      for (const store of opened) await store.close()
    },
  }
}

function proves(backend: string, open: () => Promise<FreshStore>): void {
  describe(`golden flows on ${backend}`, () => {
    it('all pass', async () => {
      const { results } = await runGolden({ flows: FLOWS, driver: ownDriver({ open }), backends: [backend] })
      expect(results.filter(({ status }) => status !== 'passed')).toEqual([])
      expect(results.length).toBeGreaterThanOrEqual(40)
    }, 240_000)
  })
}

proves('memory', async () => {
  const store = memoryBackend()
  return { store, reopen: async () => store, dispose: () => store.close() }
})
proves('file', async () => {
  const path = tempFolder()
  return again(() => fileBackend({ path: `${path}/state` }), true) // one process at a time: the dead one must have let go
})
proves('sqlite', async () => {
  const path = `${tempFolder()}/state.db`
  return again(() => sqliteBackend({ path }))
})
await suiteNeeds('redis', (url) =>
  proves('redis', async () => {
    const prefix = freshPrefix()
    return again(() => redisBackend({ url, prefix }))
  }),
)
await suiteNeeds('postgres', (url) =>
  proves('postgres', async () => {
    const schema = freshSchema()
    return again(() => postgresBackend({ url, schema, poolSize: 3 }))
  }),
)
