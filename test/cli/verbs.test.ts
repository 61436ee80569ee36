import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { mplp, mplpJson, oneLine } from './mplp.ts'

const PATIENT = { timeout: 120_000 }

describe('going back', PATIENT, () => {
  it('says what a rollback would do, then does it, and keeps the graph whole', async () => {
    const folder = tempFolder()
    await mplp(folder, ['init'])
    const { values } = await mplpJson<{ plan_id: string }>(folder, ['run', 'flow.json'])
    const plan = values[0]!.plan_id
    expect(await mplpJson(folder, ['rollback', plan, '--dry-run'])).toMatchObject({
      code: 0,
      values: [{ status: 'planned' }],
    })
    expect(existsSync(join(folder, 'hello.txt'))).toBe(true)
    expect(await mplpJson(folder, ['rollback', plan])).toMatchObject({
      code: 0,
      values: [{ status: 'done', left: [] }],
    })
    expect(existsSync(join(folder, 'hello.txt'))).toBe(false)
    expect((await mplp(folder, ['store', 'verify'])).code).toBe(0)
  })
})

describe('drift', PATIENT, () => {
  it('is found, listed, shown and settled', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'notes.md'), 'a\n')
    expect(await mplpJson(folder, ['drift', 'scan'])).toMatchObject({ code: 0, values: [{ findings: [] }] })
    appendFileSync(join(folder, 'notes.md'), 'b\n')
    const found = [{ path: 'notes.md', what: 'modified' }]
    expect(await mplpJson(folder, ['drift', 'scan'])).toMatchObject({ code: 3, values: [{ findings: found }] })
    expect(await mplpJson(folder, ['drift', 'list'])).toMatchObject({ code: 0, values: [found] })
    expect((await mplp(folder, ['drift', 'diff', 'notes.md'])).out).toContain('+b')
    const settled = await mplpJson(folder, ['drift', 'reconcile', 'notes.md', '--strategy', 'graph'])
    expect(settled.code).toBe(0)
    expect(readFileSync(join(folder, 'notes.md'), 'utf8')).toBe('a\n')
    expect(await mplpJson(folder, ['drift', 'list'])).toMatchObject({ values: [[]] })
  })
})

describe('golden', PATIENT, () => {
  it('runs flows on a store and ends by itself', async () => {
    const ran = await mplpJson<{ totals: object; passed: boolean }>(tempFolder(), [
      'golden',
      '--backends',
      'memory',
      '--filter',
      'approval-withdrawn',
    ])
    expect(ran).toMatchObject({ code: 0, values: [{ passed: true, totals: { memory: { passed: 1, failed: 0 } } }] })
  })

  it('refuses a filter that matches nothing', async () => {
    const refused = await mplp(tempFolder(), ['golden', '--backends', 'memory', '--filter', 'no-such-flow'])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toContain('filter')
  })
})

describe('doctor', PATIENT, () => {
  it('tells a store that forgets, and one that cannot be reached', async () => {
    const folder = tempFolder()
    const forgets = await mplpJson<{ check: string; verdict: string }[]>(folder, ['doctor', '--store', 'memory:'])
    expect(forgets.code).toBe(0)
    expect(forgets.values[0]).toContainEqual(expect.objectContaining({ check: 'store', verdict: 'warning' }))
    const gone = await mplpJson<{ check: string; verdict: string }[]>(folder, [
      'doctor',
      '--store',
      'postgres://127.0.0.1:1/x',
    ])
    expect(gone.code).toBe(1)
    expect(gone.values[0]).toContainEqual(expect.objectContaining({ check: 'store', verdict: 'failed' }))
  })
})
