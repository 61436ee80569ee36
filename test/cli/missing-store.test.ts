import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { VERBS } from '../../src/cli/verbs.ts'
import { itOwns, privatePostgres, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { withClient as asPostgres } from '../vsl/postgres-client.ts'
import { withClient as asRedis } from '../vsl/redis-client.ts'
import { mplpHere } from './here.ts'

/** Those that make a store, and those that need none. */
const OTHERS = ['run', 'watch', 'drift scan', 'serve', 'init', 'evidence verify', 'golden', 'version', 'config print']

const CALLS = VERBS.flatMap(({ usage }) => {
  const words = usage.split(' ')
  const name = words.filter((word) => !/^[<[]/.test(word)).join(' ')
  const some = { 'store copy': 'memory:', 'store trim': '90d' }[name] ?? 'x'
  const needed = words.filter((word) => word.startsWith('<')).map(() => some)
  return OTHERS.includes(name) ? [] : [[...name.split(' '), ...needed]]
})

/** Every verb that only needs what is there, where nothing is. */
async function allSaySo(folder: string, url: string, shown: string): Promise<void> {
  for (const call of CALLS) {
    const { code, out, err } = await mplpHere(folder, [...call, '--store', url])
    const said = `there is no store ${shown}`
    if (call[0] === 'doctor') expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining(said) })
    else expect({ call, code, out, err }).toMatchObject({ call, code: 1, out: '', err: expect.stringContaining(said) })
  }
}

describe('verbs that look at a store or change what is in it', { timeout: 120_000 }, () => {
  it.each(['sqlite:./typo.db', 'file:./typo'])('say that there is none and make none: %s', async (url) => {
    const folder = tempFolder()
    await allSaySo(folder, url, url)
    expect(readdirSync(folder)).toEqual([])
  })

  itOwns(privateRedis)('say that there is none and make none, on Redis', async ({ url }) => {
    const secret = url.replace('redis://', 'redis://:hunter2@')
    const { err } = await mplpHere(tempFolder(), ['list', '--store', secret])
    expect(err).not.toContain('hunter2')
    await allSaySo(tempFolder(), url, url)
    expect(await asRedis(url, (redis) => redis.dbsize())).toBe(0)
  })

  itOwns(privatePostgres)('say that there is none and make none, on Postgres', async ({ url }) => {
    await allSaySo(tempFolder(), url, 'postgres')
    const { rows } = await asPostgres(url, (client) => client.query(`select to_regnamespace('mplp') as made`))
    expect(rows).toEqual([{ made: null }])
  })

  it.each([
    ['--context', {}],
    ['drift.context', { root: '.', drift: { context: '00000000-0000-4000-8000-000000000000' } }],
  ])('make none for a context that cannot be in it: %s', async (name, config) => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify(config))
    const named = name === '--context' ? ['--context', '00000000-0000-4000-8000-000000000000'] : []
    for (const verb of [['drift', 'scan'], ['watch']]) {
      const { code, err } = await mplpHere(folder, [...verb, ...named])
      expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('there is no store') })
    }
    expect(readdirSync(folder)).toEqual(['mplp.config.json'])
  })
})
