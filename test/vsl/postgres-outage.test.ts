import { execFileSync } from 'node:child_process'
import { renameSync, rmSync } from 'node:fs'
import pg from 'pg'
import { describe, expect } from 'vitest'
import { OutcomeUnknown, RevisionConflict, Unavailable } from '../../src/protocol/errors.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { append, bodies, collect, write } from '../contracts/backend/given.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { itOwns, privatePostgres } from '../support/servers.ts'
import { commitAll } from './load.ts'
import { expectWhole } from './whole.ts'

const itOwnsPostgres = itOwns(privatePostgres)
/** The statement is prepared by its first commit; later ones carry only its name. */
const isCommit = (chunk: Buffer) => ['commit', 'lone', 'entry'].some((name) => chunk.includes(`mplp.${name}`))
const isHead = (chunk: Buffer) => chunk.includes('mplp.head')
const STREAMS = Array.from({ length: 8 }, (_, i) => `s${i}`)

describe('a Postgres store whose server dies', () => {
  itOwnsPostgres('loses no acknowledged commit and doubles none, killed again and again under load', async (server) => {
    const backend = await postgresBackend({ url: server.url, timeoutMs: 3000 })
    const followed = collect(backend.feed({ follow: true }), STREAMS.length * 100)
    const load = commitAll(backend, { name: 'p', streams: STREAMS, commits: 100 })
    for (let kills = 0, at = 0; kills < 3; kills++) {
      at += 100
      await collect(backend.feed({ follow: true }), at)
      await server.kill()
      await server.restart()
    }
    const { landed, failures } = await load
    expect(landed).toHaveLength(STREAMS.length * 100)
    expect(Object.values(failures).reduce((a, b) => a + b)).toBeGreaterThan(0)
    await expectWhole(backend, STREAMS, landed)
    expect(await followed).toEqual(await collect(backend.feed()))
    await backend.close()
  })

  itOwnsPostgres('is Unavailable while it is down, and back when it is', async (server) => {
    const backend = await postgresBackend({ url: server.url, timeoutMs: 1000 })
    await backend.commit(append('g', 0))
    await server.kill()
    const followed = collect(backend.feed({ follow: true }), 2) // outlasts it, where others are told
    await expect.poll(() => backend.head('g').catch((error) => error)).toBeInstanceOf(Unavailable)
    await expect(collect(backend.feed())).rejects.toBeInstanceOf(Unavailable)
    await expect(backend.commit(append('g', 1))).rejects.toBeInstanceOf(Unavailable)
    await expect(backend.set('k', 1)).rejects.toBeInstanceOf(Unavailable)
    await server.restart()
    await expect.poll(() => backend.head('g').catch(() => undefined)).toEqual({ revision: 1, token: 0 })
    await backend.commit(append('g', 1))
    expect(await followed).toHaveLength(2)
    await backend.close()
  })

  itOwnsPostgres(
    'tells those who follow that an older copy of it has come back, which gives the same places to others',
    async (server) => {
      const backend = await postgresBackend({ url: server.url, timeoutMs: 1000 })
      const back = () => expect.poll(() => backend.head('g').catch(() => undefined), { timeout: 10_000 })
      await backend.commit(append('g', 0))
      const data = await folderOf(server)
      await server.kill()
      execFileSync('cp', ['-a', data, `${data}.older`]) // with its owner
      await server.restart()
      await back().toEqual({ revision: 1, token: 0 })
      for (let i = 1; i < 6; i++) await backend.commit(append('g', i))
      const follower = backend.feed({ follow: true })[Symbol.asyncIterator]()
      for (let i = 0; i < 6; i++) await follower.next()
      const next = follower.next()
      const told = expect(next).rejects.toThrow('ahead of this store')
      await server.kill()
      rmSync(data, { recursive: true })
      renameSync(`${data}.older`, data)
      await server.restart()
      await back().toEqual({ revision: 1, token: 0 })
      for (let i = 1; i < 6; i++) await backend.commit(append('g', i, 'another'))
      await told
      await backend.close()
    },
  )

  itOwnsPostgres('ends followers when they are told, however long it is gone', async (server) => {
    const backend = await postgresBackend({ url: server.url })
    const stop = new AbortController()
    const [told, untold] = [backend.feed({ follow: true, signal: stop.signal }), backend.feed({ follow: true })].map(
      (feed) => feed[Symbol.asyncIterator](),
    )
    await backend.commit(append('g', 0))
    for (const follower of [told, untold]) expect((await follower!.next()).done).toBe(false)
    await server.kill()
    const ends = [told!.next(), untold!.next()]
    stop.abort()
    expect((await ends[0])?.done).toBe(true)
    await backend.close()
    expect((await ends[1])?.done).toBe(true)
  })
})

describe('a Postgres store whose server does not answer', () => {
  itOwnsPostgres('does not know whether a commit landed, and knows that a read did not', async (server) => {
    const backend = await postgresBackend({ url: server.url, timeoutMs: 500 })
    await backend.commit(append('g', 0))
    await Promise.all([backend.head('g'), backend.get('k'), backend.head('g')]) // connections to be silent on
    server.pause()
    const results = await Promise.allSettled([backend.commit(append('g', 1)), backend.set('k', 1), backend.head('g')])
    expect(results.map((result) => (result as PromiseRejectedResult).reason)).toEqual([
      expect.any(OutcomeUnknown),
      expect.any(OutcomeUnknown),
      expect.any(Unavailable),
    ])
    server.resume()
    await expect.poll(() => backend.get('k').catch(() => undefined)).toBe(1)
    await expect.poll(() => backend.head('g').catch(() => undefined)).toEqual({ revision: 2, token: 0 })
    await backend.close()
  })
})

describe('a Postgres store behind a bad network', () => {
  itOwnsPostgres('reports a lost reply as such; the same write again then says that it is there', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await postgresBackend({ url: proxy.url })
    await backend.commit(append('g', 0, { id: 'before' }))
    const mine = write('g', 1, { entry: { id: 'mine' }, puts: [['k', 1]] })
    const cut = proxy.cutReply(isCommit)
    await expect(backend.commit(mine)).rejects.toBeInstanceOf(OutcomeUnknown)
    await cut
    await expect(backend.commit(mine)).rejects.toEqual(new RevisionConflict('g', 1, 2))
    expect(bodies(await collect(backend.read('g')))).toEqual([{ id: 'before' }, { id: 'mine' }])
    await backend.close()
    await proxy.close()
  })

  itOwnsPostgres('makes every write of a batch unknown, and each can be asked after', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await postgresBackend({ url: proxy.url })
    await backend.commit(append('g', 0))
    const cut = proxy.cutReply(isCommit)
    const writes = STREAMS.map((stream) => append(stream, 0, { id: stream }))
    for (const result of await Promise.allSettled(writes.map((each) => backend.commit(each))))
      expect(result).toMatchObject({ reason: expect.any(OutcomeUnknown) })
    await cut
    for (const each of writes)
      await expect(backend.commit(each)).rejects.toEqual(new RevisionConflict(each.stream, 0, 1))
    await backend.close()
    await proxy.close()
  })

  itOwnsPostgres('does not send a commit a second time by itself', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await postgresBackend({ url: proxy.url })
    const cut = proxy.cutRequest(isCommit)
    await expect(backend.commit(append('g', 0, { id: 'gone' }))).rejects.toBeInstanceOf(OutcomeUnknown)
    await cut
    expect(await backend.head('g')).toEqual({ revision: 0, token: 0 })
    await backend.close()
    await proxy.close()
  })

  itOwnsPostgres('asks again for what may be asked twice', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const backend = await postgresBackend({ url: proxy.url })
    await backend.commit(append('g', 0))
    for (const cut of [proxy.cutReply, proxy.cutRequest]) {
      const done = cut(isHead)
      expect(await backend.head('g')).toEqual({ revision: 1, token: 0 })
      await done
    }
    await backend.close()
    await proxy.close()
  })

  itOwnsPostgres('loses, doubles and halves nothing while connections are cut under load', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const watcher = await postgresBackend({ url })
    const backend = await postgresBackend({ url: proxy.url, timeoutMs: 3000 })
    const followed = collect(backend.feed({ follow: true }), STREAMS.length * 100)
    const load = commitAll(backend, { name: 'p', streams: STREAMS, commits: 100 })
    for (let cuts = 0; cuts < 24; cuts++) {
      await collect(watcher.feed({ follow: true }), 20 * (cuts + 1)) // some must get through
      if (cuts % 4 === 3) proxy.cutAll()
      else await (cuts % 4 === 2 ? proxy.cutRequest(isCommit) : proxy.cutReply(isCommit))
    }
    const { landed, failures } = await load
    expect(failures.outcome_unknown).toBeGreaterThan(5)
    expect(failures.revision_conflict).toBeGreaterThan(0) // those that had landed although the reply was lost
    await expectWhole(backend, STREAMS, landed)
    expect(await followed).toEqual(await collect(backend.feed()))
    await watcher.close()
    await backend.close()
    await proxy.close()
  })

  itOwnsPostgres('reads on, without being told, what came while its connections were cut', async ({ url }) => {
    const proxy = await cuttingProxy(url)
    const reader = await postgresBackend({ url: proxy.url })
    const writer = await postgresBackend({ url })
    const heard = collect(reader.feed({ follow: true }), 2)
    const first = collect(reader.feed({ follow: true }), 1)
    await writer.commit(append('g', 0, 'first'))
    await first
    await proxy.refuse()
    await writer.commit(append('g', 1, 'not heard'))
    await proxy.accept()
    expect(bodies(await heard)).toEqual(['first', 'not heard'])
    await Promise.all([reader.close(), writer.close()])
    await proxy.close()
  })
})

async function folderOf({ url }: { readonly url: string }): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('show data_directory')
  await client.end()
  return rows[0].data_directory
}
