import { MplpError } from '../../src/protocol/errors.ts'
import { redisBackend } from '../../src/vsl/redis.ts'

// Fails to open a store and then does nothing more: if it does not end by itself, something was left behind.
for (const url of process.argv.slice(2)) {
  const outcome = await redisBackend({ url, timeoutMs: 300 }).then(
    () => 'opened',
    (error) => (error instanceof MplpError ? error.code : String(error)),
  )
  process.stdout.write(`${outcome}\n`)
}
