import { postgresBackend } from '../../src/vsl/postgres.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { freshSchema, suiteNeeds } from '../support/servers.ts'

await suiteNeeds('postgres', (url) => {
  backendContract('postgres', () => {
    const schema = freshSchema()
    return { open: () => postgresBackend({ url, schema, poolSize: 4 }) }
  })
})
