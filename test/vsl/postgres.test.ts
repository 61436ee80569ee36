import { getEventListeners, once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Corrupt, InvalidInput, type MplpError, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { type PostgresOptions, postgresBackend } from '../../src/vsl/postgres.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { child } from '../support/child.ts'
import { freshSchema, itNeeds, itOwns, privatePostgres, suiteNeeds } from '../support/servers.ts'
import { withClient } from './postgres-client.ts'

await suiteNeeds('postgres', (url) =>
  backendContract('postgres', () => {
    const schema = freshSchema()
    return { open: () => postgresBackend({ url, schema, poolSize: 4 }) }
  }),
)

const itOnPostgres = itNeeds('postgres')
const itOwnsPostgres = itOwns(privatePostgres)
const COLUMNS = Array.from({ length: 200 }, (_, i) => `c${i} int`)

describe('a Postgres store', () => {
  itOnPostgres('is made once by ten that open it at the same moment', async (url) => {
    const schema = freshSchema()
    const stores = await Promise.all(Array.from({ length: 10 }, () => postgresBackend({ url, schema, poolSize: 2 })))
    await Promise.all(stores.map((store, i) => store.commit(append(`s/${i}`, 0))))
    for (const store of stores) expect(await collect(store.feed())).toHaveLength(10)
    await withClient(url, async (client) => {
      expect((await client.query(`select name from "${schema}".mplp_migrations`)).rows).toEqual([
        { name: '0001-tables' },
        { name: '0002-forgetting' },
      ])
      expect((await client.query(`select version from "${schema}".meta`)).rows).toEqual([{ version: 2 }])
    })
    await Promise.all(stores.map((store) => store.close()))
  })

  itOnPostgres('is made while schemas of others come and go', async (url) => {
    await withClient(url, async (client) => {
      const other = freshSchema()
      let isOver = false
      const comeAndGo = async () => {
        while (!isOver) {
          await client.query(`create schema "${other}"; create table "${other}".t (${COLUMNS.join(', ')})`)
          await client.query(`drop schema "${other}" cascade`)
        }
      }
      const making = async () => {
        for (let i = 0; i < 10; i++) await (await postgresBackend({ url, schema: freshSchema() })).close()
      }
      await Promise.all([comeAndGo(), making().finally(() => (isOver = true))])
    })
  })

  itOnPostgres('keeps nothing of who has read by a signal, as every source of AbortSignal.any does', async (url) => {
    const any = vi.spyOn(AbortSignal, 'any')
    onTestFinished(() => any.mockRestore())
    const store = await postgresBackend({ url, schema: freshSchema() })
    await store.commit(append('g', 0))
    const { signal } = new AbortController()
    for (let i = 0; i < 2; i++) expect(await collect(store.read('g', { signal }))).toHaveLength(1)
    for await (const { revision } of store.read('g', { follow: true, signal })) {
      expect(revision).toBe(1)
      break
    }
    expect(any).not.toHaveBeenCalled()
    expect(getEventListeners(signal, 'abort')).toEqual([])
    await store.close()
  })

  itOnPostgres('is Corrupt, by its name, where a text is no JSON', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await store.commit(write('g', 0, { entry: 1, puts: [['k', 1]] }))
    await store.set('own', 1)
    await withClient(url, async (client) => {
      await client.query(`update "${schema}"."values" set value = '{'`)
      await client.query(`update "${schema}".own set value = '{'`)
      await client.query(`update "${schema}".journal set body = '{'`)
    })
    for (const [read, name] of [
      [() => store.getMany(['k']), 'the value of k'],
      [() => collect(store.scan('')), 'the value of k'],
      [() => store.get('own'), 'the value of own'],
      [() => collect(store.read('g')), 'entry 1 of g'],
    ] as const) {
      const error = await read().catch((e: unknown) => e)
      expect(error).toBeInstanceOf(Corrupt)
      expect((error as Corrupt).message).toContain(name)
    }
    await store.close()
  })

  itOnPostgres('opens with one query when it is there already', async (url) => {
    const schema = freshSchema()
    await (await postgresBackend({ url, schema })).close()
    const asked: string[] = []
    const pool = new pg.Pool({ connectionString: url })
    pool.on('connect', (client) => {
      const { query } = client
      client.query = ((...args: [{ name: string }]) => {
        asked.push(args[0].name)
        return (query as (...all: unknown[]) => unknown).apply(client, args)
      }) as never
    })
    const store = await postgresBackend({ pool, schema })
    expect(asked).toEqual([`${schema}.look`])
    await store.close()
    await pool.end()
  })

  itOnPostgres('uses a pool that it was lent, beside another store, and leaves it open', async (url) => {
    const pool = new pg.Pool({ connectionString: url, max: 3 })
    const [one, two] = await Promise.all(
      [freshSchema(), freshSchema()].map((schema) => postgresBackend({ pool, schema })),
    )
    await one!.commit(append('g', 0, 'one'))
    await two!.commit(append('g', 0, 'two'))
    expect((await collect(one!.feed())).map((entry) => entry.body)).toEqual(['one'])
    expect((await collect(two!.feed())).map((entry) => entry.body)).toEqual(['two'])
    await one!.close()
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    await two!.commit(append('g', 1))
    await two!.close()
    await pool.end()
  })

  itOnPostgres('says when the server may forget what it has acknowledged', async (url) => {
    const warnings: string[] = []
    const lazy = new URL(url)
    lazy.searchParams.set('options', '-c synchronous_commit=off')
    const options = { schema: freshSchema(), onWarning: (message: string) => warnings.push(message) }
    const store = await postgresBackend({ url: lazy.href, ...options })
    expect(store.traits.durable).toBe(false)
    expect(warnings).toEqual([expect.stringContaining('may lose acknowledged commits')])
    await store.close()
    const durable = await postgresBackend({ url, ...options })
    expect(durable.traits).toEqual({ durable: true, processes: 'many', grouped: true })
    expect(warnings).toHaveLength(1)
    await durable.close()
  })

  itOnPostgres('keeps blobs larger than it reads at once', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema() })
    const bytes = Buffer.alloc(20 * 1024 * 1024 + 7, 'abcdefghijk')
    const digest = await store.putBlob(bytes)
    expect(Buffer.compare((await store.getBlob(digest))!, bytes)).toBe(0)
    await store.close()
  })

  itOnPostgres('takes 50,000 puts and as many deletes in one commit', async (url) => {
    const store = await postgresBackend({ url, schema: freshSchema() })
    const keys = Array.from({ length: 50_000 }, (_, i) => `k/${i}`)
    await store.commit(write('g', 0, { entry: 1, inserts: keys.map((key) => [key, 1] as const) }))
    expect((await store.getMany(keys)).size).toBe(keys.length)
    await store.commit(write('g', 1, { entry: 2, deletes: keys }))
    expect(await collect(store.scan(''))).toEqual([])
    await store.close()
  })

  itOnPostgres('goes on after a restore into a younger server, whose transaction ids begin again', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    for (let i = 0; i < 3; i++) await store.commit(append('g', i))
    await store.close()
    await withClient(url, async (client) => {
      await client.query(`update "${schema}".journal set xid = xid + 1000000000000`)
      await client.query(`update "${schema}".heads set xid = xid + 1000000000000`)
    })
    const restored = await Promise.all([0, 1].map(() => postgresBackend({ url, schema })))
    const before = await collect(restored[0]!.feed())
    expect(before.map((entry) => entry.revision)).toEqual([1, 2, 3])
    await restored[0]!.commit(append('g', 3))
    await restored[1]!.commit(append('g', 4))
    const after = await collect(restored[0]!.feed({ after: before.at(-1)!.position }))
    expect(after.map((entry) => entry.revision)).toEqual([4, 5])
    await Promise.all(restored.map((each) => each.close()))
    const again = await postgresBackend({ url, schema })
    await again.commit(append('g', 5))
    expect((await collect(again.feed())).map((entry) => entry.revision)).toEqual([1, 2, 3, 4, 5, 6])
    await again.close()
  })
})

describe('opening a Postgres store', () => {
  const url = 'postgres://localhost/db'
  const wrong: [string, PostgresOptions, path: string, rule: string][] = [
    ['neither a URL nor a pool', {}, 'url', 'option'],
    ['a URL and a pool', { url, pool: { connect() {} } as unknown as pg.Pool }, 'url', 'option'],
    ['a pool that lends nothing', { pool: {} as pg.Pool }, 'pool', 'type'],
    ['a URL of another kind', { url: 'mysql://user:secret@localhost/db' }, 'url', 'format'],
    ['text that is no URL', { url: 'secret' }, 'url', 'format'],
    ['a URL with a lone % in it', { url: 'postgres://user:secret@localhost/d%b' }, 'url', 'option'],
    ['a URL that names a certificate which is not there', { url: `${url}?sslrootcert=/none` }, 'url', 'option'],
    ['a schema in capitals', { url, schema: 'Store' }, 'schema', 'pattern'],
    ['a schema with a quote', { url, schema: 'a"; drop' }, 'schema', 'pattern'],
    ["a schema in the server's own space", { url, schema: 'pg_store' }, 'schema', 'pattern'],
    ['a schema of 49 letters', { url, schema: 'a'.repeat(49) }, 'schema', 'pattern'],
    ['a pool of one', { url, poolSize: 1 }, 'poolSize', 'range'],
    ['no time', { url, timeoutMs: 0 }, 'timeoutMs', 'range'],
  ]
  for (const [what, options, path, rule] of wrong)
    it(`refuses ${what}`, async () => {
      const error: unknown = await postgresBackend(options).catch((error) => error)
      expect(error).toBeInstanceOf(InvalidInput)
      expect((error as InvalidInput).problems).toMatchObject([{ path, rule }])
      expect((error as InvalidInput).message).not.toContain('secret')
    })

  itOnPostgres('refuses a database that is not there', async (url) => {
    const elsewhere = new URL(url)
    elsewhere.pathname = '/no_such_database'
    await expect(postgresBackend({ url: elsewhere.href })).rejects.toThrow(Refused)
  })

  itOnPostgres(
    'brings a store of the first version up to date, while others of that version have it open',
    async (url) => {
      const schema = freshSchema()
      const older = await postgresBackend({ url, schema })
      const digest = await older.putBlob(new TextEncoder().encode('from before'))
      await older.commit(append('old', 0))
      await older.commit(append('young', 0))
      const before = await everything(older, ['old', 'young'])
      await withClient(url, (client) =>
        client.query(`
        drop function "${schema}".forget_stream;
        alter table "${schema}".heads drop column forgotten;
        alter table "${schema}".blobs drop column put_at;
        delete from "${schema}".mplp_migrations where name = '0002-forgetting';
        update "${schema}".meta set version = 1`),
      )
      const store = await postgresBackend({ url, schema })
      expect(await everything(store, ['old', 'young'])).toEqual(before)
      expect(await store.facts!()).toMatchObject({ layout: 2 })
      await older.commit(append('young', 1))
      await store.commit(write('old', 1, { forget: true }))
      expect(await collect(older.feed())).toHaveLength(2)
      expect(await store.forgetBlobs([digest], 60_000)).toEqual([]) // as if it had been put when the store was brought up to date
      expect(await store.forgetBlobs([digest], 0)).toEqual([digest])
      await Promise.all([store.close(), older.close()])
    },
  )

  itOnPostgres('refuses a store that a newer runtime has written, and leaves it as it is', async (url) => {
    const schema = freshSchema()
    const store = await postgresBackend({ url, schema })
    await store.commit(append('g', 0))
    const before = await everything(store, ['g'])
    expect(await store.facts!()).toMatchObject({ layout: 2 })
    await withClient(url, async (client) => {
      await client.query(`update "${schema}".meta set version = 99`)
      await expect(store.facts!()).rejects.toThrow(Refused)
      await store.close()
      await expect(postgresBackend({ url, schema })).rejects.toMatchObject({
        code: 'refused',
        remedy: expect.stringContaining('update mplp-runtime'),
      })
      await client.query(`update "${schema}".meta set version = 2`)
    })
    const again = await postgresBackend({ url, schema })
    expect(await everything(again, ['g'])).toEqual(before)
    await again.close()
  })

  itOnPostgres('refuses a schema with tables that are not a store, and leaves it as it is', async (url) => {
    const schema = freshSchema()
    await withClient(url, async (client) => {
      await client.query(`create schema "${schema}"; create table "${schema}".journal (mine int)`)
      await expect(postgresBackend({ url, schema })).rejects.toThrow(Refused)
      const tables = `select relname from pg_class where relnamespace = '"${schema}"'::regnamespace and relkind = 'r'`
      expect((await client.query(tables)).rows).toEqual([{ relname: 'journal' }])
    })
  })

  itOwnsPostgres(
    'refuses a wrong password, a missing one, a user without rights and another encoding',
    async ({ url }) => {
      const as = (user: string, password: string, database = 'postgres') => {
        const address = new URL(url)
        Object.assign(address, { username: user, password, pathname: `/${database}` })
        return address.href
      }
      await withClient(url, async (client) => {
        await client.query(`create role guest login password 'right'; revoke create on database postgres from public`)
        await client.query(`create database ascii encoding 'SQL_ASCII' template template0`)
        const [{ hba_file }] = (await client.query('show hba_file')).rows as [{ hba_file: string }]
        writeFileSync(hba_file, 'host all guest 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n')
        await client.query('select pg_reload_conf()')
        await expect
          .poll(() => postgresBackend({ url: as('guest', 'wrong') }).catch((error: MplpError) => error.message))
          .toMatch(/does not accept the password; check user and password/)
        for (const [address, message] of [
          [as('guest', ''), /asks for a password; put it into the URL/],
          [as('guest', 'right'), /does not let this user do what a store needs; grant/],
          [as('postgres', '', 'ascii'), /is encoded in SQL_ASCII; create one with the encoding UTF8/],
        ] as const) {
          const error: unknown = await postgresBackend({ url: address }).catch((error) => error)
          expect(error).toBeInstanceOf(Refused)
          expect((error as Refused).message).toMatch(message)
          expect((error as Refused).message).not.toMatch(/right|wrong/)
        }
        const left = `select count(*)::int as count from pg_stat_activity where application_name = 'mplp-runtime'`
        await expect.poll(async () => (await client.query(left)).rows).toEqual([{ count: 0 }])
      })
    },
  )

  itOnPostgres('refuses a server without TLS where the URL asks for it', async (url) => {
    const secure = new URL(url)
    secure.searchParams.set('sslmode', 'verify-full')
    await expect(postgresBackend({ url: secure.href })).rejects.toThrow(Refused)
  })

  it('gives up in time on a host that is not there, one that is silent and one that is no Postgres', async () => {
    const silent = createServer(() => undefined)
    const chatty = createServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    const ports = await Promise.all(
      [silent, chatty].map(
        (server) =>
          new Promise<number>((resolve) => {
            server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
          }),
      ),
    )
    const urls = [`127.0.0.1:1`, 'no-such-host.invalid:5432', ...ports.map((port) => `127.0.0.1:${port}`)]
    for (const host of urls)
      await expect(postgresBackend({ url: `postgres://u:secret@${host}/db`, timeoutMs: 300 })).rejects.toMatchObject({
        name: Unavailable.name,
        message: expect.not.stringContaining('secret'),
      })
    silent.close()
    chatty.close()
  })

  itOnPostgres('leaves nothing behind that would keep the process alive, whether it opens or not', async (url) => {
    const script = new URL('./postgres-failed-open.ts', import.meta.url)
    const elsewhere = new URL(url)
    elsewhere.pathname = '/no_such_database'
    const process = child(script, [
      elsewhere.href,
      'postgres://u@127.0.0.1:1/db',
      'postgres://u@no-such-host.invalid/db',
    ])
    expect(await process.exited).toBe('code 0')
    expect(process.lines).toEqual(['refused', 'unavailable', 'unavailable'])
  })

  itOnPostgres(
    'keeps no process alive once it is closed, not by a server that has fallen silent either',
    async (url) => {
      let isSilent = false
      const { hostname, port } = new URL(url)
      const between = createServer({ allowHalfOpen: true }, (client) => {
        const server = connect(Number(port), hostname)
        client.on('data', (bytes) => isSilent || server.write(bytes)).on('error', () => undefined)
        server.on('data', (bytes) => isSilent || client.write(bytes)).on('error', () => undefined)
        onTestFinished(() => void [client, server].map((socket) => socket.destroy()))
      }).listen(0, '127.0.0.1')
      onTestFinished(() => void between.close())
      await once(between, 'listening')
      const through = new URL(url)
      through.host = `127.0.0.1:${(between.address() as AddressInfo).port}`
      const schema = freshSchema()
      const store = await postgresBackend({ url, schema })
      await store.commit(append('g', 0, 'heard'))
      const opener = child(new URL('./postgres-left-open.ts', import.meta.url), [through.href, schema])
      await opener.line('heard')
      isSilent = true
      opener.hush()
      expect(await opener.exited).toBe('code 0')
      expect(opener.lines).toEqual(['heard', 'closed'])
      await store.close()
    },
  )
})
