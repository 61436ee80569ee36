import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { folderOfFiles } from '../../examples/custom-store.ts'
import { FOLDING, RULES } from '../../src/psg/rules.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { mplp } from '../cli/mplp.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { child } from '../support/child.ts'
import { freshTopic, itNeeds, itOwns, privatePostgres, privateRedis } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

// The other examples are tried beside what they show: test/ael/examples.test.ts and test/orchestrator/profiles-examples.test.ts.

const EXAMPLE_MS = 60_000

const shown = async (name: string, args: readonly string[] = []): Promise<readonly string[]> => {
  const temp = tempFolder()
  const example = child(new URL(`../../examples/${name}.ts`, import.meta.url), args, { TMPDIR: temp })
  expect(await example.exited).toBe('code 0')
  const left = readdirSync(temp).filter((entry) => entry.startsWith('mplp-'))
  expect(left).toHaveLength(name === 'demo' ? 1 : 0) // it keeps its state folder; the others leave nothing lying about
  return example.lines
}

describe('npm start', () => {
  it('shows a whole life and names the state folder', { timeout: EXAMPLE_MS }, async () => {
    const lines = await shown('demo')
    expect(lines.join('\n')).toContain(
      'the plan is completed; report.md says: Sales rose by 12 %. / The north did best.',
    )
    expect(lines).toContain('noticed: report.md was modified')
    expect(lines).toContain(
      'merged: # The quarter /  / Sales rose by 12 %. / The north did best. / Written by an agent.',
    )
    expect(lines).toContain('the plan failed: the card was declined; still put aside: nothing')
    expect(lines).toContain('the store holds together: yes')
    expect(lines.at(-1)).toMatch(/^state folder: .*mplp-demo-/)
    expect(readdirSync(lines.at(-1)!.slice('state folder: '.length))).toContain('state.db')
    const further = lines.flatMap((line) => /^ {2}npm run -s mplp -- (.*)$/.exec(line)?.[1] ?? [])
    expect(further).toHaveLength(4)
    for (const command of further) {
      const { code, out, err } = await mplp(tempFolder(), command.split(' '))
      expect({ command, code, err, says: out !== '' }).toEqual({ command, code: 0, err: '', says: true })
    }
  })

  it('prints what the README says', { timeout: EXAMPLE_MS }, async () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    const [, recorded] = /```text\n(1\. A plan:.*?)```/s.exec(readme)!
    expect((await shown('demo')).join('\n')).toContain(recorded!.trim())
  })

  it('leaves the decision to you with --ask', { timeout: EXAMPLE_MS }, async () => {
    const demo = child(new URL('../../examples/demo.ts', import.meta.url), ['--ask'], { TMPDIR: tempFolder() })
    demo.tell('n')
    expect(await demo.line('rejected')).toContain('Run report.publish?')
    expect(await demo.line('the plan is failed')).toBeDefined()
    await demo.exited
  })

  it('takes it for a no when nobody is there to ask', { timeout: EXAMPLE_MS }, async () => {
    const demo = child(new URL('../../examples/demo.ts', import.meta.url), ['--ask'], { TMPDIR: tempFolder() })
    demo.hush()
    expect(await demo.line('rejected')).toContain('Run report.publish?')
    expect(await demo.exited).toBe('code 0')
  })
})

it('shows an edit settled in each of the four ways, and a failed run taken back', { timeout: EXAMPLE_MS }, async () => {
  const lines = (await shown('watch-and-reconcile')).map((line) => line.trim())
  expect(lines.join('\n')).toMatch(
    /modified notes\.md \(\w+\), seen after \d+ ms\n--- a\/notes\.md\n[\s\S]*-two\n\+TWO\n/,
  )
  const settled = lines.filter((line) => /^(ask|graph|files|merge): .*\)$/.test(line))
  expect(settled.map((line) => line.replace(/:.*:/, ':'))).toEqual([
    'ask: asked (notes.md)',
    'graph: restored (guide.md)',
    'files: accepted (guide.md)',
    'merge: merged (plan.md)',
  ])
  expect(lines).toContain('plan.md now: "ONE\\ntwo\\nthree\\nfour\\nFIVE\\n"')
  expect(lines).toContain('the run has failed: the site is down')
  expect(lines).toContain('done; files: notes.md, plan.md; open findings: 0')
  expect(lines).toContain('the graph again has notes.md, plan.md; the plan stays failed')
  expect(lines).toContain('notes.md begins with "one\\nTWO"')
})

it('shows a run live from another process', { timeout: EXAMPLE_MS }, async () => {
  const lines = await shown('live-events')
  expect(lines[0]).toMatch(/^watching ws:.*, served by process \d+$/)
  expect(lines.filter((line) => /step .*in_progress -> completed/.test(line))).toHaveLength(3)
  expect(lines.at(-1)).toMatch(/plan +in_progress -> completed$/)
})

it('shows every rule refuse what breaks it', { timeout: EXAMPLE_MS }, async () => {
  const lines = await shown('break-each-rule')
  const rules = [...FOLDING, ...RULES]
  for (const { id, keeps } of rules) expect(lines).toContain(`${id}: ${keeps}`)
  expect(lines.filter((line) => line.startsWith('  RuleViolation: '))).toHaveLength(rules.length)
  expect(lines.at(-1)).toContain(`${rules.length} rules`)
})

describe('a store of your own', () => {
  it('is shown to keep a run', { timeout: EXAMPLE_MS }, async () => {
    expect(await shown('custom-store')).toEqual([
      'made whole: for one process at a time',
      'the run is completed',
      'opened again, it still says 6',
      'the store holds together: yes',
    ])
  })

  backendContract(
    'examples/custom-store',
    () => {
      const folder = mkdtempSync(join(tempFolder(), 'store-'))
      return { open: () => openStore(folderOfFiles(folder, { sync: false })) } // nobody pulls the plug here
    },
    { kept: true, scanKeys: 100 },
  )
})

itOwns(() => privateRedis())('shows a graph and a bus in Redis, and leaves nothing there', async ({ url }) => {
  expect(await shown('redis', [url])).toEqual([
    'the store is durable, for many processes',
    'completed: 20, then 40',
    'heard over Redis: step_started, step_completed, step_started, step_completed',
    'removed keys of the example',
  ])
})

itOwns(privatePostgres)('shows two workers that share plans and do no step twice', async ({ url }) => {
  const lines = await shown('postgres-two-workers', [url])
  expect(lines.slice(0, 3)).toEqual([
    '20 of 20 plans are completed',
    '60 steps were done, 0 of them twice',
    '2 workers took part',
  ])
})

itNeeds('real kafka')(
  'shows a group on Kafka that goes on where its last member was',
  async (brokers) => {
    const lines = await shown('kafka-consumer', [brokers, freshTopic()])
    expect(lines.map((line) => line.replace(/process \d+/, 'a process'))).toEqual([
      'a first plan is completed, and on Kafka',
      ...HEARD,
      'a second plan, while nobody listens is completed, and on Kafka',
      ...HEARD,
      'the group heard of 2 plans, in order',
    ])
    const members = new Set(lines.flatMap((line) => /process (\d+)/.exec(line)?.[1] ?? []))
    expect(members.size).toBe(2)
  },
  120_000,
)
const HEARD = [
  ...Array(3).fill('  a process hears plan_status_changed'), // proposed, approved, in progress
  '  a process hears step_completed',
  '  a process hears plan_status_changed',
]
