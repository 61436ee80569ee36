import { InvalidInput } from '../protocol/errors.ts'
import type { Backend } from './backend.ts'

/** Opens the store that a URL names: memory:, file:, sqlite:, redis:, rediss:, postgres:. Nobody who uses one loads the clients of the others. */
export async function openStore(url: string): Promise<Backend> {
  const scheme = url.slice(0, url.indexOf(':'))
  const path = url.slice(scheme.length + 1).replace(/^\/\/(?=\/)/, '')
  switch (scheme) {
    case 'memory':
      return (await import('./memory.ts')).memoryBackend()
    case 'file':
      return (await import('./file.ts')).fileBackend({ path })
    case 'sqlite':
      return (await import('./sqlite.ts')).sqliteBackend({ path })
    case 'redis':
    case 'rediss':
      return (await import('./redis.ts')).redisBackend({ url })
    case 'postgres':
    case 'postgresql':
      return (await import('./postgres.ts')).postgresBackend({ url })
    default:
      throw new InvalidInput('store', [
        {
          path: 'url',
          rule: 'scheme',
          message: 'must begin with memory:, file:, sqlite:, redis:, rediss: or postgres:',
          found: url.slice(0, 20),
        },
      ])
  }
}
