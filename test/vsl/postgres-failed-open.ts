import { MplpError } from '../../src/protocol/errors.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'

// Fails to open stores and then does nothing more: if it does not end by itself, something was left behind.
for (const url of process.argv.slice(2)) {
  const outcome = await postgresBackend({ url, timeoutMs: 2000 }).then(
    () => 'opened',
    (error) => (error instanceof MplpError ? error.code : String(error)),
  )
  process.stdout.write(`${outcome}\n`)
}
