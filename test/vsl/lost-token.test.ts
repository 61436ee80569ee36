import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { FencedOut } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { append } from '../contracts/backend/given.ts'
import { freshSchema, itNeeds, itOwns, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { withClient as withPostgres } from './postgres-client.ts'
import { withClient as withRedis } from './redis-client.ts'

const itOnPostgres = itNeeds('postgres')
const itOwnsRedis = itOwns(privateRedis)

/** Two owners on two sides of a set-back, to before either. */
async function isFencedOut(store: Backend, setBack: () => Promise<unknown>): Promise<void> {
  const lost = await store.acquire('g', thisHolder('before'), 60_000)
  await setBack()
  const lease = await store.acquire('g', thisHolder('since'), 60_000)
  await expect(store.commit({ ...append('g', 0), fence: lost!.token })).rejects.toThrow(FencedOut)
  await store.commit({ ...append('g', 0), fence: lease!.token })
  await store.close()
}

describe('an owner whose lease was lost with a set-back is fenced out by the next one', () => {
  it('on SQLite', async () => {
    const path = join(tempFolder(), 'state.db')
    await isFencedOut(await sqliteBackend({ path }), async () => {
      const db = new Database(path)
      db.exec('DELETE FROM streams')
      db.close()
    })
  })

  itOwnsRedis('on Redis', async ({ url }) => {
    await isFencedOut(await redisBackend({ url }), () => withRedis(url, (redis) => redis.flushall()))
  })

  itOnPostgres('on Postgres', async (url) => {
    const schema = freshSchema()
    await isFencedOut(await postgresBackend({ url, schema }), () =>
      withPostgres(url, (client) => client.query(`delete from "${schema}".heads`)),
    )
  })
})
