import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { InvalidInput, NotFound, Refused } from '../../src/protocol/errors.ts'
import { openStore, type StoreOptions } from '../../src/vsl/vsl.ts'
import { freshPrefix, freshSchema, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { withClient as asPostgres } from './postgres-client.ts'
import { withClient as asRedis } from './redis-client.ts'

/** Opens what is not there without making it, then what is. */
async function isFoundOnceMade(url: string, options: StoreOptions, left: () => unknown): Promise<void> {
  const before = await left()
  const opening = openStore(url, { ...options, create: false })
  await expect(opening).rejects.toThrow(NotFound)
  await expect(opening).rejects.toMatchObject({ what: 'store' })
  expect(await left()).toEqual(before)
  await (await openStore(url, options)).close()
  await (await openStore(url, { ...options, create: false })).close()
}

describe('a store that is not to be made', () => {
  it.each(['sqlite:', 'file:'])('is found once it was made, and nothing is left before: %s', async (scheme) => {
    const folder = tempFolder()
    await isFoundOnceMade(`${scheme}${join(folder, 'deep/state')}`, {}, () => readdirSync(folder))
  })

  it('is not what was only begun: an empty file, an empty folder', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'state.db'), '')
    mkdirSync(join(folder, 'state'))
    await isFoundOnceMade(`sqlite:${join(folder, 'state.db')}`, {}, () => statSync(join(folder, 'state.db')).size)
    await isFoundOnceMade(`file:${join(folder, 'state')}`, {}, () => readdirSync(join(folder, 'state')))
  })

  it('is not mistaken for a folder of something else', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'notes.md'), 'mine')
    await expect(openStore(`file:${folder}`, { create: false })).rejects.toThrow(Refused)
  })

  it('cannot be in memory, where none is there before it is opened', async () => {
    await expect(openStore('memory:', { create: false })).rejects.toThrow(InvalidInput)
  })

  itNeeds('redis')('is found on Redis once it was made, and nothing is left before', async (url) => {
    const prefix = freshPrefix()
    await isFoundOnceMade(url, { prefix }, () => asRedis(url, (redis) => redis.keys(`{${prefix}}*`)))
  })

  itNeeds('postgres')('is found on Postgres once it was made, and nothing is left before', async (url) => {
    const schema = freshSchema()
    const named = 'select 1 from pg_namespace where nspname = $1'
    const left = () => asPostgres(url, async (client) => (await client.query(named, [schema])).rowCount)
    await isFoundOnceMade(url, { schema }, left)
    await asPostgres(url, (client) => client.query(`drop table "${schema}".meta`))
    await expect(openStore(url, { schema, create: false })).rejects.toThrow(Refused) // lost, and not missing
  })
})
