import { redisBackend } from '../../src/vsl/redis.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { freshPrefix, suiteNeeds } from '../support/servers.ts'

await suiteNeeds('redis', (url) =>
  backendContract('redis', () => {
    const prefix = freshPrefix()
    return { open: () => redisBackend({ url, prefix }) }
  }),
)
