import pg from 'pg'

/** A client of the test's own, to look behind the store or to stand in its way. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url)
  client.on('error', () => undefined) // the call in hand rejects with it
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** A pool that tells what goes through it. */
export function watchedPool(url: string): { pool: pg.Pool; names: string[]; errors: string[] } {
  const names: string[] = []
  const errors: string[] = []
  class WatchedClient extends pg.Client {
    override query(...args: unknown[]): never {
      const [config] = args as [{ name?: string; text?: string } | string]
      names.push(typeof config === 'string' ? config : (config.name ?? config.text ?? ''))
      const result = (super.query as (...all: unknown[]) => unknown)(...args)
      if (result instanceof Promise) result.catch((error: { code?: string }) => errors.push(error.code ?? ''))
      return result as never
    }
  }
  const pool = new pg.Pool({ connectionString: url, Client: WatchedClient as never })
  return { pool, names, errors }
}

/** As a store would, but in the client's own transaction and without telling anybody. Returns the refusals. */
export async function commitDirectly(
  client: pg.Client,
  schema: string,
  write: { stream: string; expected: number; entry?: string | number; claims?: string[] },
): Promise<unknown> {
  const { stream, expected, entry = 'direct', claims = [] } = write
  const { rows } = await client.query(
    `select "${schema}".commit_batch(0, $1, $2, '{null}', $3, $4, $5, $6, $4, $6) as refused`,
    [[stream], [expected], [JSON.stringify(entry)], claims, claims.map(() => '"x"'), claims.map(() => 1)],
  )
  return JSON.parse(rows[0].refused)
}
