import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import type { JsonObject } from '../../src/protocol/json.ts'
import { mplpHere } from '../cli/here.ts'
import { mplp, mplpJson, oneLine } from '../cli/mplp.ts'
import { child } from '../support/child.ts'
import { flowOf } from '../support/flows.ts'
import { itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const PATIENT = { timeout: 120_000 }
const EXAMPLE = new URL('../../examples/golden-for-your-runtime.ts', import.meta.url)

describe('mplp golden', PATIENT, () => {
  it('ends by itself when flows have killed and frozen their processes', async () => {
    for (const filter of ['crash', 'two-owners']) {
      const ran = await mplpJson<JsonObject>(tempFolder(), [
        'golden',
        '--backends',
        'memory,sqlite',
        '--filter',
        filter,
      ])
      expect(ran).toMatchObject({ code: 0, values: [{ passed: true }] })
    }
  })

  it('tells with --all which servers it did not meet, and the totals of the rest at the end', async () => {
    const { code, out, err } = await mplp(tempFolder(), ['golden', '--all', '--filter', 'integrity/cycle', '--json'])
    expect(code).toBe(0)
    expect(err).toContain('redis was not met')
    expect(err).toContain('postgres was not met')
    const passed = { passed: 1, failed: 0, skipped: 0 }
    const totals = { memory: passed, file: passed, sqlite: passed }
    expect(out.endsWith(`"totals":${JSON.stringify(totals)}}\n`)).toBe(true)
  })

  itNeeds('postgres')('leaves no schema behind in a database', async (url) => {
    const { default: pg } = await import('pg')
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const schemas = async () =>
      (await client.query("select nspname from pg_namespace where starts_with(nspname, 'golden_')")).rows
    try {
      const ran = await mplp(tempFolder(), [
        'golden',
        '--backends',
        'memory',
        '--postgres',
        url,
        '--filter',
        'integrity',
      ])
      expect(ran.out).toContain('postgres: 23 passed, 0 failed')
      expect(await schemas()).toEqual([])
    } finally {
      await client.end()
    }
  })

  itNeeds('redis')('leaves no key behind on a server', async (url) => {
    const { Redis } = await import('ioredis')
    const redis = new Redis(url)
    try {
      const ran = await mplp(tempFolder(), ['golden', '--backends', 'memory', '--redis', url, '--filter', 'integrity'])
      expect(ran.out).toContain('redis: 23 passed, 0 failed')
      expect(await redis.keys('*golden_*')).toEqual([])
    } finally {
      redis.disconnect()
    }
  })

  it('tells the checklist as Markdown', async () => {
    const { out } = await mplp(tempFolder(), [
      ...['golden', '--backends', 'memory', '--filter', 'lifecycle/plan', '--reporter', 'compliance'],
    ])
    expect(out).toContain('| Invalid transitions are rejected | must | passed |')
  })

  it('scores the driver of somebody else, and says 3 when a flow fails', async () => {
    const driver = ['golden', '--backends', 'notebook', '--driver', fileURLToPath(EXAMPLE)]
    const passed = await mplp(tempFolder(), [...driver, '--filter', 'conformance/'])
    expect(passed).toMatchObject({ code: 0, out: 'notebook: 5 passed, 0 failed\n' })
    const failed = await mplp(tempFolder(), [...driver, '--filter', 'integrity/cycle'])
    expect(failed.code).toBe(3)
    expect(failed.out).toContain(
      'integrity/cycle/script.yaml:2 load: was accepted, but must be refused by plan.acyclic',
    )
  })

  it('says in one line that it has no folder to work in', async () => {
    const away = join(tempFolder(), 'away')
    vi.stubEnv('TMPDIR', away)
    const refused = await mplpHere(tempFolder(), ['golden', '--filter', 'integrity/cycle'])
    vi.unstubAllEnvs()
    expect(refused.code).toBe(1)
    expect(oneLine(refused)).toBe(`mplp: ${away} cannot be written to (ENOENT); name another folder with TMPDIR`)
  })

  it('refuses a reporter, a backend and a driver that are none', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'empty.mjs'), 'export default {}')
    writeFileSync(join(folder, 'half.mjs'), 'export default { name: "half", open: async () => ({}) }')
    for (const [option, value, says] of [
      ['--reporter', 'song', 'reporter'],
      ['--backends', 'moon', 'backends'],
      ['--driver', 'nowhere.mjs', 'does not exist'],
      ['--driver', 'empty.mjs', 'is no driver'],
      ['--driver', 'half.mjs', 'is no driver'],
    ] as const) {
      const refused = await mplp(folder, ['golden', option, value])
      expect(refused.code).toBe(64)
      expect(oneLine(refused)).toContain(says)
    }
  })
})

it('shows a runtime of somebody else and its score by area', PATIENT, async () => {
  const example = child(EXAMPLE)
  expect(await example.exited).toBe('code 0')
  expect(example.lines[0]).toMatch(/^notebook: \d+ passed, \d+ failed, \d+ skipped$/)
  expect(example.lines.filter((line) => /^\w/.test(line)).slice(1)).toEqual([
    'conformance: 5 of 5',
    expect.stringMatching(/^integrity: \d+ of \d+$/),
    'lifecycle: 19 of 19',
  ])
})

describe('mplp evidence', PATIENT, () => {
  it('packs a run that was cancelled, with what ended it', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify({ vsl: 'sqlite:./state.db' }))
    const waits = flowOf({ one: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(waits))
    const ran = await mplpJson<{ plan_id: string }>(folder, ['run', 'flow.json'])
    expect(ran.code).toBe(2)
    expect(await mplpJson(folder, ['cancel', waits.plan.plan_id])).toMatchObject({ code: 0 })
    expect(await mplpJson(folder, ['evidence', 'export', waits.plan.plan_id, 'pack'])).toMatchObject({ code: 0 })
    expect(await mplpJson(folder, ['evidence', 'verify', 'pack'])).toMatchObject({
      code: 0,
      values: [{ outcome: 'ADMISSIBLE', findings: [] }],
    })
    const { pointers } = JSON.parse(readFileSync(join(folder, 'pack/evidence_pointers.json'), 'utf8'))
    expect(pointers[3]).toMatchObject({ requirement_id: 'RQ-D4-01', status: 'PRESENT' })
  })
})
