import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { hereJson, mplpHere } from './here.ts'
import { type Ended, mplp, mplpJson, oneLine } from './mplp.ts'

interface Ran {
  readonly run_id: string
  readonly plan_id: string
  readonly context_id: string
  readonly status: string
  readonly confirms: readonly string[]
}

const PATIENT = 60_000

describe('a project that a newcomer makes', { timeout: PATIENT }, () => {
  const folder = tempFolder()
  let init: Ended
  let ran: Ended & { readonly values: Ran[] }
  let plan: string
  let step: string
  beforeAll(async () => {
    init = await mplpHere(folder, ['init'])
    ran = await hereJson<Ran>(folder, ['run', 'flow.json'])
    plan = ran.values[0]!.plan_id
    step = (JSON.parse(readFileSync(join(folder, 'flow.json'), 'utf8')) as Flow).plan.steps[1]!.step_id
  }, PATIENT)

  it('begins with a config and a flow that runs', () => {
    expect(init).toMatchObject({ code: 0, err: '' })
    expect(ran).toMatchObject({ code: 0, err: '', values: [{ status: 'completed', success: true }] })
    expect(readFileSync(join(folder, 'hello.txt'), 'utf8')).toBe('hello\n')
  })

  it('is left as it is by a second init', async () => {
    const before = readFileSync(join(folder, 'flow.json'), 'utf8')
    const again = await mplpHere(folder, ['init'])
    expect(again.code).toBe(1)
    expect(oneLine(again)).toContain('mplp.config.json is there already')
    expect(readFileSync(join(folder, 'flow.json'), 'utf8')).toBe(before)
  })

  it('is not begun where one of its files is there already', async () => {
    const other = tempFolder()
    writeFileSync(join(other, 'flow.json'), '{}')
    const refused = await mplpHere(other, ['init'])
    expect({ code: refused.code, said: oneLine(refused) }).toMatchObject({
      code: 1,
      said: expect.stringContaining('flow.json'),
    })
    expect(readdirSync(other)).toEqual(['flow.json'])
  })

  it('refuses the same flow a second time, since its ids are taken', async () => {
    const again = await mplpHere(folder, ['run', 'flow.json'])
    expect(again.code).toBe(1)
    expect(oneLine(again)).toMatch(/^mplp: /)
  })

  it('shows the plan as a document', async () => {
    const { values } = await hereJson(folder, ['show', plan])
    expect(values).toMatchObject([{ plan_id: plan, status: 'completed', steps: [{}, { status: 'completed' }] }])
  })

  it('tells why a step is there, up to the context', async () => {
    const { values } = await hereJson<{ kind: string; id: string }[]>(folder, ['why', step])
    expect(values[0]!.map(({ kind }) => kind)).toContain('context')
    expect(values[0]!.map(({ id }) => id)).toContain(plan)
  })

  it('tells why a file is there, by its path, up to the context of the run that wrote it', async () => {
    const { values } = await hereJson<{ kind: string; id: string }[]>(folder, ['why', 'hello.txt'])
    expect(values[0]!.map(({ kind }) => kind)).toEqual(['context', 'plan', 'confirm', 'step', 'action', 'file'])
    expect(values[0]!.map(({ id }) => id)).toContain(plan)
    expect((await hereJson(folder, ['show', 'hello.txt'])).values).toMatchObject([{ path: 'hello.txt', size: 6 }])
    expect((await hereJson<object[]>(folder, ['history', 'hello.txt'])).values[0]).toHaveLength(1)
    expect(await mplpHere(folder, ['why', 'absent.txt'])).toMatchObject({ code: 1, out: '' })
  })

  it('tells every status that a step went through', async () => {
    const { values } = await hereJson<{ after: { status: string } }[]>(folder, ['history', step])
    expect(values[0]!.map(({ after }) => after.status)).toEqual(['pending', 'in_progress', 'completed'])
  })

  it('draws the plan for Mermaid and for Graphviz', async () => {
    const [drawn, dotted] = await Promise.all([
      mplpHere(folder, ['graph', plan]),
      mplpHere(folder, ['graph', plan, '--dot']),
    ])
    expect(drawn.out).toMatch(/^(flowchart|graph) /)
    expect(dotted.out).toMatch(/^digraph/)
  })

  it('keeps the picture to plans and contexts', async () => {
    const refused = await mplpHere(folder, ['graph', step])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toContain('names a step')
  })

  it('prints the events of one family, each a JSON line, and goes on after a position', async () => {
    const stages = await hereJson<{ position: string; event: { event_family: string } }>(folder, [
      'events',
      '--family',
      'pipeline_stage',
    ])
    expect(stages.values.length).toBeGreaterThanOrEqual(6)
    expect(new Set(stages.values.map(({ event }) => event.event_family))).toEqual(new Set(['pipeline_stage']))
    const after = await mplpHere(folder, ['events', '--after', stages.values.at(-1)!.position, '--json'])
    expect(after.out).not.toContain(stages.values[0]!.position)
  })

  it('exports evidence that verifies, and that no longer does when a byte is changed', async () => {
    const exported = await hereJson<{ files: string[]; root: string }>(folder, ['evidence', 'export', plan, 'pack'])
    expect(exported).toMatchObject({ code: 0, err: '' })
    expect(await hereJson(folder, ['evidence', 'verify', 'pack'])).toMatchObject({
      code: 0,
      values: [{ outcome: 'ADMISSIBLE' }],
    })
    const file = readdirSync(join(folder, 'pack'), { recursive: true, encoding: 'utf8' }).find((name) =>
      /plan.*\.json$/.test(name),
    )!
    writeFileSync(join(folder, 'pack', file), `${readFileSync(join(folder, 'pack', file), 'utf8')} `)
    expect((await mplpHere(folder, ['evidence', 'verify', 'pack'])).code).toBe(3)
  })

  it('proves the store', async () => {
    const { code, values } = await hereJson(folder, ['store', 'verify']) // the flow's context, and that of the folder
    expect({ code, values }).toEqual({ code: 0, values: [{ contexts: 2, findings: [] }] })
  })

  it('has nothing running and nothing to resume when all has ended', async () => {
    expect((await hereJson(folder, ['list'])).values).toEqual([[]])
    expect(await hereJson(folder, ['resume'])).toMatchObject({ code: 0, values: [{ resumed: [] }] })
  })
})

describe('a plan that asks', { timeout: PATIENT }, () => {
  it('ends with 2 while it waits, is listed, and completes once approved', async () => {
    const folder = withFlow({ needed: 1, roles: ['dba'], reason: 'touches the database' })
    const ran = await hereJson<Ran>(folder, ['run', 'flow.json'])
    const confirm = ran.values[0]!.confirms[0]!
    expect(ran).toMatchObject({ code: 2, values: [{ status: 'waiting' }] })
    const listed = await mplpHere(folder, ['confirm', 'list'])
    expect(listed.out).toContain(`${confirm} touches the database`)
    const wrong = await mplpHere(folder, ['confirm', 'approve', confirm, '--role', 'intern'])
    expect(wrong.code).toBe(1)
    expect(oneLine(wrong)).toContain('intern')
    const approved = await hereJson(folder, ['confirm', 'approve', confirm, '--role', 'dba'])
    expect(approved).toMatchObject({ code: 0, values: [{ confirm_id: confirm, status: 'approved' }] })
    await mplpHere(folder, ['resume'])
    expect((await hereJson(folder, ['show', ran.values[0]!.plan_id])).values).toMatchObject([{ status: 'completed' }])
  })

  it('goes back to a draft when rejected, and ends when cancelled', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { values } = await hereJson<Ran>(folder, ['run', 'flow.json'])
    const { confirms, plan_id } = values[0]!
    const rejected = await hereJson(folder, ['confirm', 'reject', confirms[0]!, '--reason', 'no'])
    expect(rejected).toMatchObject({ code: 0, values: [{ status: 'rejected' }] })
    expect((await hereJson(folder, ['show', plan_id])).values).toMatchObject([{ status: 'draft' }])
    expect(await hereJson(folder, ['cancel', plan_id])).toMatchObject({ code: 0, values: [{ status: 'cancelled' }] })
  })

  it('is approved by the one who runs it, if asked to', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { code, values } = await hereJson<Ran>(folder, ['run', 'flow.json', '--approve', 'lead'])
    expect({ code, status: values[0]!.status }).toEqual({ code: 0, status: 'completed' })
  })
})

describe('a plan that fails', { timeout: PATIENT }, () => {
  it('ends with 1 and says what failed', async () => {
    const folder = withFlow('auto', 'no-such-file.txt')
    const failed = await mplpHere(folder, ['run', 'flow.json'])
    expect(failed.code).toBe(1)
    expect(failed.out).toMatch(/^failed: .*no-such-file/m)
  })
})

describe('the environment', { timeout: PATIENT }, () => {
  it('refuses an unknown MPLP_ variable by its name', async () => {
    const refused = await mplp(tempFolder(), ['list'], { MPLP_VLS: 'memory:' })
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toContain('did you mean vsl?')
  })
})

describe('the rest', { timeout: PATIENT }, () => {
  it('prints the config in force and covers its secrets', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), '{ "vsl": "postgres://me:hunter2@db/x", "patrol_ms": 50 }')
    const printed = await mplp(folder, ['config', 'print', '--json'], { MPLP_ENCRYPTION_KEY: 'hunter3' })
    expect(JSON.parse(printed.out)).toMatchObject({
      vsl: 'postgres://me:***@db/x',
      patrol_ms: 50,
      encryption_key: '***',
    })
    expect(printed.out).not.toContain('hunter')
  })

  it('reads what it wrote with an encryption key, and nothing without', async () => {
    const folder = withFlow('auto')
    const key = { MPLP_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') }
    const ran = await mplp(folder, ['run', 'flow.json', '--json'], key)
    const { plan_id } = JSON.parse(ran.out) as Ran
    const shown = await mplp(folder, ['show', plan_id, '--json'], key)
    expect(JSON.parse(shown.out)).toMatchObject({ plan_id, status: 'completed' })
    const without = await mplp(folder, ['show', plan_id])
    expect(without).toMatchObject({ code: 1, out: '' })
    expect(oneLine(without)).toContain('the store is encrypted')
  })

  it('says which protocol and profiles it keeps', async () => {
    expect((await mplpJson(tempFolder(), ['version'])).values).toMatchObject([
      { runtime_name: 'mplp-runtime', supported_protocol_versions: ['1.0.0'] },
    ])
  })

  it('helps with an example, and ends well', async () => {
    const helped = await mplp(tempFolder(), ['run', '--help'])
    expect(helped).toMatchObject({ code: 0, err: '' })
    expect(helped.out).toContain('mplp run flow.json --approve lead --json')
  })
})

/** A folder with a flow of one step that reads a file: the flow itself, unless told. */
function withFlow(approval: Flow['approval'], path = 'flow.json'): string {
  const folder = tempFolder()
  const flow = flowOf(
    { read: { binding: { action_type: 'file_operation', params: { operation: 'read', path } } } },
    { approval: approval! },
  )
  writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
  return folder
}
