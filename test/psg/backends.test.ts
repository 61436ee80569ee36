import { join } from 'node:path'
import { fileBackend } from '../../src/vsl/file.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { freshPrefix, freshSchema, suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { graphScenario } from './scenario.ts'

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
