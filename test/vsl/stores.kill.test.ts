import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tortureStore } from '../../scripts/torture/stores.ts'
import { freshPrefix, freshSchema, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const KILLS = { kills: 5, seed: 7 }
const itOnRedis = itNeeds('redis')
const itOnPostgres = itNeeds('postgres')

async function expectWhole(target: Parameters<typeof tortureStore>[0]): Promise<void> {
  const { acknowledged, found, ...rest } = await tortureStore(target, KILLS)
  expect(rest).toEqual({ kills: 5, lost: 0, half: 0 })
  expect(acknowledged).toBeGreaterThan(0)
  expect(found).toBeGreaterThanOrEqual(acknowledged)
}

describe('a process that commits and is killed leaves every acknowledged commit whole, and nothing half,', () => {
  it('in a folder', () => expectWhole({ url: `file:${join(tempFolder(), 'state')}` }))
  it('in SQLite', () => expectWhole({ url: `sqlite:${join(tempFolder(), 'state.db')}` }))
  itOnRedis('in Redis', (url) => expectWhole({ url, options: { prefix: freshPrefix() } }), 120_000)
  itOnPostgres('in Postgres', (url) => expectWhole({ url, options: { schema: freshSchema() } }), 120_000)
})
