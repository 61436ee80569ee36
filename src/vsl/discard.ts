import type { StoreOptions } from './vsl.ts'

const TIMEOUT_MS = 10_000

/** Removes a store on a server with everything in it: what was only made to be tried out. */
export async function discardStore(
  url: string,
  { schema, prefix }: Pick<StoreOptions, 'prefix' | 'schema'>,
): Promise<void> {
  if (schema !== undefined) await discardSchema(url, schema)
  if (prefix !== undefined) await discardKeys(url, prefix)
}

async function discardSchema(url: string, schema: string): Promise<void> {
  const { postgresConnection } = await import('./postgres-connection.ts')
  const connection = postgresConnection({ url, poolSize: 1 }, TIMEOUT_MS)
  try {
    await connection.ask({ name: 'discard', text: `drop schema if exists "${schema}" cascade` })
  } finally {
    await connection.close()
  }
}

async function discardKeys(url: string, prefix: string): Promise<void> {
  const { connect } = await import('./redis-connection.ts')
  const { redisAddress } = await import('../protocol/redis-address.ts')
  const { keysOf } = await import('./redis-scripts.ts')
  const { news: _, ...keys } = keysOf(prefix)
  const names = Object.values(keys).flatMap((key) => (typeof key === 'string' ? [key] : Object.values(key)))
  const connection = await connect(redisAddress(url, 'store'), TIMEOUT_MS)
  try {
    await connection.ask((redis) => redis.unlink(names))
  } finally {
    connection.close()
  }
}
