import { type Client, Pool } from 'pg'
import { describe, expect } from 'vitest'
import {
  FencedOut,
  KeyExists,
  OutcomeUnknown,
  Refused,
  RevisionConflict,
  Unavailable,
} from '../../src/protocol/errors.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { commitEntry, commitLone } from '../../src/vsl/postgres-tables.ts'
import { append, bodies, collect, refusals, write } from '../contracts/backend/given.ts'
import { freshSchema, itNeeds } from '../support/servers.ts'
import { commitAll } from './load.ts'
import { commitDirectly, watchedPool, withClient } from './postgres-client.ts'
import { expectWhole } from './whole.ts'

const itOnPostgres = itNeeds('postgres')

describe('commits on Postgres', () => {
  itOnPostgres('take one round trip, alone or many together', async (url) => {
    const { pool, names } = watchedPool(url)
    const schema = freshSchema()
    const store = await postgresBackend({ pool, schema })
    const lease = await store.acquire('cursor', thisHolder('h'), 60_000)
    const sent = async (work: Promise<unknown>) => {
      names.length = 0
      await work
      return names.filter((name) => name !== 'mplp.notify')
    }
    const [lone, entry, batch] = [[`${schema}.lone`], [`${schema}.entry`], [`${schema}.commit`]]
    expect(await sent(store.commit(write('g', 0, { entry: 0, puts: [['p', 0]] })))).toEqual(batch)
    expect(await sent(store.commit(write('g', 1, { entry: 1, puts: [['p', 1]] })))).toEqual(lone)
    expect(await sent(store.commit({ ...write('cursor', 0, { puts: [['at', 1]] }), fence: lease!.token }))).toEqual(
      lone,
    )
    expect(await sent(store.commit(append('g', 2)))).toEqual(entry)
    expect(await sent(store.commit(write('g', 3, { entry: 3, inserts: [['k', 3]], deletes: ['p'] })))).toEqual(batch)
    expect(await sent(store.commit(append('g', 0)).catch(() => undefined))).toEqual(batch)
    const many = Array.from({ length: 32 }, (_, i) =>
      store.commit(write(`many/${i}`, 0, { entry: i, puts: [[`${i}`, i]] })),
    )
    expect(await sent(Promise.all(many))).toEqual(batch)
    await store.close()
    await pool.end()
  })

  itOnPostgres('of an entry alone are held to the same conditions', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema() })
    await store.commit(append('g', 0))
    const lease = await store.acquire('g', thisHolder('h'), 60_000)
    await expect(store.commit(append('g', 2))).rejects.toEqual(new RevisionConflict('g', 2, 1))
    await expect(store.commit({ ...append('g', 1), fence: 0 })).rejects.toEqual(new FencedOut('g', 0, lease!.token))
    await expect(store.commit(append('absent', 1))).rejects.toEqual(new RevisionConflict('absent', 1, 0))
    await store.commit({ ...append('g', 1), fence: lease!.token })
    await store.commit(append('g', 2))
    expect((await collect(store.read('g'))).map((entry) => entry.revision)).toEqual([1, 2, 3])
    expect(await store.head('g')).toEqual({ revision: 3, token: lease!.token })
    await store.close()
  })

  itOnPostgres('that only put are held to the same conditions, alone', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await store.commit(write('g', 0, { entry: 'first', puts: [['a', 0]] }))
    const put = (expected: number, fence?: number) =>
      store.commit({
        ...write('g', expected, {
          entry: 'put',
          puts: [
            ['b', 1],
            ['a', 1],
          ],
        }),
        ...(fence !== undefined && { fence }),
      })
    await expect(put(2)).rejects.toEqual(new RevisionConflict('g', 2, 1))
    await expect(put(1, 7)).rejects.toEqual(new FencedOut('g', 7, 0))
    const lease = await store.acquire('g', thisHolder('h'), 60_000)
    await expect(put(1, 0)).rejects.toEqual(new FencedOut('g', 0, lease!.token))
    await expect(store.commit({ ...write('g', 1, { puts: [['a', 1]] }), fence: 0 })).rejects.toEqual(
      new FencedOut('g', 0, lease!.token),
    )
    await expect(store.commit(write('g', 0, { puts: [['a', 1]] }))).rejects.toEqual(new RevisionConflict('g', 0, 1))
    expect(await collect(store.scan(''))).toEqual([['a', 0]])
    await put(1, lease!.token)
    await store.commit({ ...write('g', 2, { puts: [['c', 2]] }), fence: lease!.token })
    expect(await collect(store.scan(''))).toEqual([
      ['a', 1],
      ['b', 1],
      ['c', 2],
    ])
    expect(await store.head('g')).toEqual({ revision: 2, token: lease!.token })
    expect(bodies(await collect(store.feed()))).toEqual(['first', 'put'])
    await store.close()
  })

  itOnPostgres('of one batch get each their verdict, and only those that passed are written', async (url) => {
    const { pool, names } = watchedPool(url)
    const schema = freshSchema()
    const store = await postgresBackend({ pool, schema })
    await store.commit(write('stale', 0, { entry: 1, puts: [['there', 0]] }))
    const lease = await store.acquire('owned', thisHolder('h'), 60_000)
    names.length = 0
    const results = await Promise.allSettled([
      store.commit(write('new', 0, { entry: 'new', puts: [['a', 1]] })),
      store.commit(write('stale', 0, { entry: 'stale', puts: [['b', 1]], inserts: [['b2', 1]] })),
      store.commit({ ...write('owned', 0, { entry: 'old owner', puts: [['c', 1]] }), fence: lease!.token - 1 }),
      store.commit(
        write('meets', 0, {
          entry: 'meets',
          inserts: [
            ['d', 1],
            ['there', 1],
          ],
          puts: [['d2', 1]],
          deletes: ['gone'],
        }),
      ),
      store.commit(write('ahead', 7, { entry: 'ahead', puts: [['e', 1]] })),
      store.commit(write('quiet', 0, { puts: [['f', 1]] })),
      store.commit(write('inserts', 0, { entry: 'inserts', inserts: [['g', 1]] })),
    ])
    expect(results.map((r) => (r.status === 'rejected' ? r.reason : 'landed'))).toEqual([
      'landed',
      new RevisionConflict('stale', 0, 1),
      new FencedOut('owned', lease!.token - 1, lease!.token),
      new KeyExists('there'),
      new RevisionConflict('ahead', 7, 0),
      'landed',
      'landed',
    ])
    expect(names.filter((name) => name.endsWith('.commit'))).toHaveLength(1)
    expect(await collect(store.scan(''))).toEqual([
      ['a', 1],
      ['f', 1],
      ['g', 1],
      ['there', 0],
    ])
    expect((await collect(store.feed())).map((entry) => entry.body)).toEqual([1, 'inserts', 'new'])
    for (const stream of ['stale', 'owned', 'meets', 'ahead', 'quiet'])
      expect((await store.head(stream)).revision).toBe(stream === 'stale' ? 1 : 0)
    await store.close()
    await pool.end()
  })

  itOnPostgres('of two stores never wait in a circle, whatever streams and keys they share', async (url) => {
    const schema = freshSchema()
    const pools = [0, 1, 2].map(() => watchedPool(url))
    const stores = await Promise.all(pools.map(({ pool }) => postgresBackend({ pool, schema })))
    const letters = ['a', 'b', 'c', 'd', 'e', 'f']
    const work = stores.flatMap((store, s) =>
      letters.map(async (_, w) => {
        for (let n = 0; n < 30; n++) {
          const turned = letters.map((_, i) => letters[(i * (s + 1) + w + n) % letters.length]!)
          const [stream, ...keys] = [...new Set([...turned, ...letters])]
          const { revision } = await store.head(stream!)
          const inserts = [[`new/${keys[3]}`, n]] as const
          await store
            .commit(
              write(stream!, revision, {
                entry: n,
                inserts,
                puts: [
                  [keys[0]!, n],
                  [keys[1]!, n],
                ],
                deletes: [keys[2]!],
              }),
            )
            .catch((error) => {
              if (!(error instanceof RevisionConflict || error instanceof KeyExists)) throw error
            })
          await store.commit(write(`own/${s}/${w}/${n}`, 0, { deletes: [`new/${keys[3]}`, keys[4]!] }))
          const puts = keys.slice(0, 4).map((key) => [key, n] as const)
          await store.commit(write(`cursor/${s}/${w}`, 0, { puts }))
        }
      }),
    )
    await Promise.all(work)
    for (let n = 0; n < 40; n++)
      await Promise.all(
        stores.map(async (store, s) => {
          const streams = (s % 2 === 0 ? letters : letters.toReversed()).map((letter) => `shared/${letter}`)
          const results = await Promise.allSettled(streams.map((stream) => store.commit(append(stream, n))))
          expect(new Set(refusals(results))).not.toContain('Unavailable')
        }),
      )
    expect(await collect(stores[0]!.read('shared/a'))).toHaveLength(40)
    const alone = stores.map(async (store, s) => {
      const puts = (s % 2 === 0 ? letters : letters.toReversed()).map((key) => [key, s] as const)
      for (let n = 0; n < 100; n++) await store.commit(write(`alone/${s}`, 0, { puts }))
    })
    await Promise.all(alone)
    for (const { errors } of pools) expect(errors.filter((code) => code === '40P01')).toEqual([])
    await Promise.all(stores.map((store) => store.close()))
    await Promise.all(pools.map(({ pool }) => pool.end()))
  })

  itOnPostgres('of two stores lose, double and halve nothing on the same streams', async (url) => {
    const schema = freshSchema()
    const stores = await Promise.all([0, 1].map(() => postgresBackend({ url, schema })))
    const streams = ['a', 'b', 'c', 'd', 'e']
    const results = await Promise.all(
      stores.map((store, i) => commitAll(store, { name: `p${i}`, streams, commits: 40 })),
    )
    await expectWhole(
      stores[0]!,
      streams,
      results.flatMap(({ landed }) => landed),
    )
    await Promise.all(stores.map((store) => store.close()))
  })

  itOnPostgres('let one of many win a key that all insert at once, from two stores', async (url) => {
    const schema = freshSchema()
    const stores = await Promise.all([0, 1].map(() => postgresBackend({ url, schema })))
    for (let round = 0; round < 20; round++) {
      const results = await Promise.allSettled(
        stores.map((store, i) =>
          store.commit(
            write(`s/${i}/${round}`, 0, { entry: i, inserts: [[`id/${round}`, i]], puts: [[`p/${round}/${i}`, i]] }),
          ),
        ),
      )
      expect(refusals(results).toSorted()).toEqual(['KeyExists', undefined])
      const winner = results.findIndex((result) => result.status === 'fulfilled')
      expect(await collect(stores[0]!.scan(`p/${round}/`))).toEqual([[`p/${round}/${winner}`, winner]])
      expect(await stores[1]!.getMany([`id/${round}`])).toEqual(new Map([[`id/${round}`, winner]]))
    }
    await Promise.all(stores.map((store) => store.close()))
  })

  itOnPostgres('are judged by what is there after the wait for somebody else, not before', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await store.commit(write('g', 0, { entry: 1, puts: [['kept', 1]] }))
    await withClient(url, async (client) => {
      await client.query('begin')
      await commitDirectly(client, schema, { stream: 'g', expected: 1, claims: ['taken'] })
      const results = Promise.allSettled([
        store.commit(append('g', 1)),
        store.commit(write('other', 0, { inserts: [['taken', 2]], puts: [['kept', 2]] })),
      ])
      await waitsForLock(client, schema)
      await client.query('commit')
      expect((await results).map((r) => (r.status === 'rejected' ? r.reason : 'landed'))).toEqual([
        new RevisionConflict('g', 1, 2),
        new KeyExists('taken'),
      ])
    })
    expect(await collect(store.scan(''))).toEqual([
      ['kept', 1],
      ['taken', 'x'],
    ])
    await store.close()
  })

  itOnPostgres('pass after the wait if the other one has gone back', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await withClient(url, async (client) => {
      await client.query('begin')
      await commitDirectly(client, schema, { stream: 'g', expected: 0, claims: ['taken'] })
      const landed = store.commit(write('g', 0, { entry: 1, inserts: [['taken', 2]] }))
      await waitsForLock(client, schema)
      await client.query('rollback')
      await landed
    })
    expect(await store.head('g')).toEqual({ revision: 1, token: 0 })
    await store.close()
  })

  itOnPostgres('land on a stream that somebody acquires in the same moment for the first time', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await withClient(url, async (client) => {
      await client.query('begin')
      await client.query(`insert into "${schema}".heads (stream, token) values ('g', 1)`)
      const landed = store.commit(append('g', 0))
      await waitsForLock(client, schema)
      await client.query('commit')
      await landed
    })
    expect(await store.head('g')).toEqual({ revision: 1, token: 1 })
    await store.close()
  })

  itOnPostgres('give up on a lock that is never released, having written nothing', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema, timeoutMs: 500 })
    await store.commit(append('g', 0))
    await withClient(url, async (client) => {
      await client.query('begin')
      await client.query(`select from "${schema}".heads where stream = 'g' for update`)
      await expect(store.commit(write('g', 1, { entry: 1, puts: [['k', 1]] }))).rejects.toThrow(Unavailable)
      await client.query('rollback')
    })
    expect(await store.head('g')).toEqual({ revision: 1, token: 0 })
    await store.commit(write('g', 1, { entry: 1 }))
    await store.close()
  })

  itOnPostgres('wait, and are told the remedy, while a server only lets us read', async (url) => {
    const schema = freshSchema()
    await (await postgresBackend({ url, schema })).close()
    const readOnly = new URL(url)
    readOnly.searchParams.set('options', '-c default_transaction_read_only=on')
    const store = await postgresBackend({ url: readOnly.href, schema })
    for (const call of [() => store.commit(append('g', 0)), () => store.set('k', 1)]) {
      const error = await call().catch((error) => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error.message).toContain('connect to the primary')
    }
    expect(await store.head('g')).toEqual({ revision: 0, token: 0 })
    await store.close()
  })

  itOnPostgres('wait, and are told the remedy, while the rights of their user are gone', async (url) => {
    const schema = freshSchema()
    await (await postgresBackend({ url, schema })).close()
    await withClient(url, async (client) => {
      const all = `all on all tables in schema "${schema}"`
      await client.query(`create role "${schema}"; grant usage on schema "${schema}" to "${schema}"`)
      await client.query(`grant ${all} to "${schema}"`)
      const asUser = new URL(url)
      asUser.searchParams.set('options', `-c role=${schema}`)
      const store = await postgresBackend({ url: asUser.href, schema })
      await store.commit(append('g', 0))
      await client.query(`revoke ${all} from "${schema}"`)
      for (const call of [() => store.commit(append('g', 1)), () => store.set('k', 1), () => store.head('g')]) {
        const error = await call().catch((error) => error)
        expect(error).toBeInstanceOf(Unavailable)
        expect(error.message).toContain('grant it')
      }
      await expect(postgresBackend({ url: asUser.href, schema })).rejects.toThrow(Refused)
      await client.query(`grant ${all} to "${schema}"`)
      await store.commit(append('g', 1))
      await store.close()
      await client.query(`drop owned by "${schema}"; drop role "${schema}"`)
    })
  })

  itOnPostgres('land by a connection of their own after one that led to a standby', async (url) => {
    const pool = new Pool({ connectionString: url, max: 2 })
    const store = await postgresBackend({ pool, schema: freshSchema() })
    const client = await pool.connect()
    await client.query('set default_transaction_read_only = on')
    client.release()
    await expect(store.commit(append('g', 0))).rejects.toThrow(Unavailable)
    await store.commit(append('g', 0))
    await store.close()
    await pool.end()
  })

  itOnPostgres('land by a connection of their own after one that no longer knows what was prepared', async (url) => {
    const pool = new Pool({ connectionString: url, max: 2 })
    const store = await postgresBackend({ pool, schema: freshSchema() })
    await store.set('k', 1) // tells nobody, which would take a connection too
    const [one, other] = [await pool.connect(), await pool.connect()]
    await one.query('deallocate all')
    one.release()
    const error = await store.set('k', 2).catch((error) => error)
    expect(error).toBeInstanceOf(Unavailable)
    expect(error.message).toContain('connect to the server itself')
    await store.set('k', 2)
    other.release()
    await store.close()
    await pool.end()
  })

  itOnPostgres('are not known to have failed when the server ended their transaction for its length', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await withClient(url, async (client) => {
      const ends = `begin raise exception 'it took too long' using errcode = '25P04'; end`
      await client.query(`create function "${schema}".ends() returns trigger language plpgsql as $$ ${ends} $$`)
      await client.query(`create trigger ends before insert on "${schema}".heads execute function "${schema}".ends()`)
      await expect(store.commit(append('g', 0))).rejects.toThrow(OutcomeUnknown)
      await client.query(`drop trigger ends on "${schema}".heads`)
    })
    await store.commit(append('g', 0))
    await store.close()
  })

  itOnPostgres('keep the order of a stream in the feed, even if an older transaction writes later', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await withClient(url, async (client) => {
      await client.query('begin; select pg_current_xact_id()') // it is numbered before the commit that follows
      await store.commit(append('g', 0))
      expect(await commitDirectly(client, schema, { stream: 'g', expected: 1 })).toEqual([{ member: 1, kind: 'again' }])
      const lone = await client.query(commitLone(schema), ['0', 'g', 1, null, '"x"', ['k'], ['1'], []])
      expect(lone.rowCount).toBe(0)
      expect((await client.query(commitEntry(schema), ['0', 'g', 1, null, '"x"'])).rowCount).toBe(0)
      await client.query('commit')
    })
    await store.commit(append('g', 1))
    expect((await collect(store.feed())).map((entry) => entry.revision)).toEqual([1, 2])
    await store.close()
  })
})

/** Resolves when a commit of the store waits for somebody. */
async function waitsForLock(client: Client, schema: string): Promise<void> {
  const waiting = `
    select from pg_stat_activity where wait_event_type = 'Lock' and query ~ ($1 || '.*(commit_batch|journal)')`
  const count = async () => {
    await client.query('select pg_stat_clear_snapshot()') // a transaction would go on seeing what it saw first
    return (await client.query(waiting, [schema])).rowCount
  }
  await expect.poll(count).toBe(1)
}
