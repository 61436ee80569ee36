import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { freshPrefix, freshSchema, suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { by, set, world } from './given.ts'
import { graphScenario } from './scenario.ts'

it('leaves no value to the journal where people read them, unless they are sealed', async () => {
  const store = await fileBackend({ path: tempFolder() })
  const sealed = await withEncryption(await fileBackend({ path: tempFolder() }), [{ id: 'k', key: randomBytes(32) }])
  const written = await Promise.all(
    [store, sealed].map(async (place) => {
      const { context, graph } = await world({ store: place })
      await graph.commit([set('context', context, { title: 'read me' })], by)
      const found = await place.getMany([`${context}/-/context/${context}`, `${context}/-/written/revision`])
      return [...found.keys()].map((key) => key.split('/').at(-2))
    }),
  )
  expect(written).toEqual([['context'], ['written']])
  await Promise.all([store.close(), sealed.close()])
})

graphScenario('memory', () => {
  const store = memoryBackend()
  return { open: async () => store, kept: false }
})
graphScenario('file', () => {
  const path = tempFolder()
  return { open: () => fileBackend({ path }) }
})
graphScenario('sqlite', () => {
  const path = join(tempFolder(), 'state.db')
  return { open: () => sqliteBackend({ path }) }
})
await suiteNeeds('redis', (url) =>
  graphScenario('redis', () => {
    const prefix = freshPrefix()
    return { open: () => redisBackend({ url, prefix }) }
  }),
)
await suiteNeeds('postgres', (url) =>
  graphScenario('postgres', () => {
    const schema = freshSchema()
    return { open: () => postgresBackend({ url, schema, poolSize: 4 }) }
  }),
)
