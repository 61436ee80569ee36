import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { compliance, complianceMarkdown } from '../../src/golden/compliance.ts'
import type { Driver, Session } from '../../src/golden/driver.ts'
import { inMemory, ownDriver, readFlows, report, runGolden } from '../../src/golden/golden.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { tempFolder } from '../support/temp-folder.ts'

const FLOWS = await readFlows(fileURLToPath(new URL('../../golden-flows', import.meta.url)))
const some = (...names: string[]) => FLOWS.filter(({ name }) => names.includes(name))
const memory = async () => inMemory(memoryBackend())

/** A runtime that takes everything, keeps nothing and says that all is well. */
const careless: Driver = {
  name: 'careless',
  capabilities: ['conformance', 'execution', 'approval', 'recovery', 'rollback'],
  async open(): Promise<Session> {
    const fine = async () => ({ ok: true }) as const
    return {
      load: fine,
      change: fine,
      submit: fine,
      settle: async () => 'ended',
      decide: fine,
      propose: fine,
      cancel: fine,
      signal: fine,
      crash: async () => undefined,
      rollback: fine,
      documents: async () => [],
      events: async () => [],
      verify: async () => [],
      close: async () => undefined,
    }
  },
}

describe('golden flows', () => {
  it('fail on a runtime that keeps nothing', async () => {
    const { results, passed } = await runGolden({ flows: FLOWS, driver: careless, backends: ['none'] })
    expect(passed).toBe(false)
    const fooled = results.filter(({ status }) => status === 'passed').map(({ flow }) => flow)
    expect(fooled).toEqual([])
  })

  it('skip by name what a runtime does not offer', async () => {
    const modest = { ...careless, capabilities: ['conformance'] as const }
    const { results } = await runGolden({ flows: some('execution/happy-path'), driver: modest, backends: ['none'] })
    expect(results[0]).toMatchObject({ status: 'skipped', reason: 'careless does not offer execution' })
  })

  it('notice a single rule that is switched off', async () => {
    const driver = ownDriver({ open: memory, switched: new Set(['plan.acyclic']) })
    const { results } = await runGolden({ flows: some('integrity/cycle'), driver, backends: ['memory'] })
    expect(results[0]?.status).toBe('failed')
  })

  it('are told in four ways, with the totals of each backend', async () => {
    const golden = await runGolden({
      flows: some('integrity/cycle', 'conformance/basic'),
      driver: ownDriver({ open: memory }),
      backends: ['memory'],
    })
    expect(JSON.parse(report(golden, 'json')).totals).toEqual({ memory: { passed: 2, failed: 0, skipped: 0 } })
    expect(report(golden, 'human')).toContain('memory: 2 passed, 0 failed')
    expect(report(golden, 'tap').split('\n').slice(0, 3)).toEqual([
      'TAP version 13',
      '1..2',
      'ok 1 - memory conformance/basic',
    ])
    expect(report(golden, 'junit')).toContain('tests="2" failures="0"')
    expect(compliance(golden).find(({ says }) => says === 'Plans are acyclic')?.result).toEqual({ memory: 'passed' })
    expect(complianceMarkdown(golden)).toContain('| Plans are acyclic | must | passed | 1 |')
  })

  it('are refused with file and line before anything runs', async () => {
    const cases: { [message: string]: { [file: string]: string } } = {
      'flow.yaml is missing': {},
      'flow.yaml:3': { 'flow.yaml': 'proves: x\nneeds: [\n' },
      'not a verb': { 'flow.yaml': 'proves: x\n', 'script.yaml': 'acts: [dance]\n' },
      'leads nowhere': { 'flow.yaml': 'proves: x\n', 'script.yaml': 'acts: [{ submit: { plan: $plan } }]\n' },
      'not a capability': { 'flow.yaml': 'proves: x\nneeds: [magic]\n' },
      invariant: {
        'flow.yaml': 'proves: x\n',
        'script.yaml': 'acts: [verify]\n',
        'invariants.yaml': '- { id: a, scope: plan, path: x, rule: sparkles }\n',
      },
    }
    for (const [message, files] of Object.entries(cases)) {
      const root = tempFolder()
      await mkdir(join(root, 'area', 'flow'), { recursive: true })
      for (const [name, text] of Object.entries(files)) await writeFile(join(root, 'area', 'flow', name), text)
      await expect(readFlows(root)).rejects.toThrow(message)
    }
    await expect(readFlows(join(tempFolder(), 'nowhere'))).rejects.toThrow('not a folder')
  })
})
