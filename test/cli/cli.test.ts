import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
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
    init = await mplp(folder, ['init'])
    ran = await mplpJson<Ran>(folder, ['run', 'flow.json'])
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
    const again = await mplp(folder, ['init'])
    expect(again.code).toBe(1)
    expect(oneLine(again)).toContain('mplp.config.json is there already')
    expect(readFileSync(join(folder, 'flow.json'), 'utf8')).toBe(before)
  })

  it('refuses the same flow a second time, since its ids are taken', async () => {
    const again = await mplp(folder, ['run', 'flow.json'])
    expect(again.code).toBe(1)
    expect(oneLine(again)).toMatch(/^mplp: /)
  })

  it('shows the plan as a document', async () => {
    const { values } = await mplpJson(folder, ['show', plan])
    expect(values).toMatchObject([{ plan_id: plan, status: 'completed', steps: [{}, { status: 'completed' }] }])
  })

  it('tells why a step is there, up to the context', async () => {
    const { values } = await mplpJson<{ kind: string; id: string }[]>(folder, ['why', step])
    expect(values[0]!.map(({ kind }) => kind)).toContain('context')
    expect(values[0]!.map(({ id }) => id)).toContain(plan)
  })

  it('tells every status that a step went through', async () => {
    const { values } = await mplpJson<{ after: { status: string } }[]>(folder, ['history', step])
    expect(values[0]!.map(({ after }) => after.status)).toEqual(['pending', 'in_progress', 'completed'])
  })

  it('draws the plan for Mermaid and for Graphviz', async () => {
    const [drawn, dotted] = await Promise.all([mplp(folder, ['graph', plan]), mplp(folder, ['graph', plan, '--dot'])])
    expect(drawn.out).toMatch(/^(flowchart|graph) /)
    expect(dotted.out).toMatch(/^digraph/)
  })

  it('keeps the picture to plans and contexts', async () => {
    const refused = await mplp(folder, ['graph', step])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toContain('names a step')
  })

  it('prints the events of one family, each a JSON line, and goes on after a position', async () => {
    const stages = await mplpJson<{ position: string; event: { event_family: string } }>(folder, [
      'events',
      '--family',
      'pipeline_stage',
    ])
    expect(stages.values.length).toBeGreaterThanOrEqual(6)
    expect(new Set(stages.values.map(({ event }) => event.event_family))).toEqual(new Set(['pipeline_stage']))
    const after = await mplp(folder, ['events', '--after', stages.values.at(-1)!.position, '--json'])
    expect(after.out).not.toContain(stages.values[0]!.position)
  })

  it('exports evidence that verifies, and that no longer does when a byte is changed', async () => {
    const exported = await mplpJson<{ files: string[]; root: string }>(folder, ['evidence', 'export', plan, 'pack'])
    expect(exported).toMatchObject({ code: 0, err: '' })
    expect(await mplpJson(folder, ['evidence', 'verify', 'pack'])).toMatchObject({
      code: 0,
      values: [{ outcome: 'ADMISSIBLE' }],
    })
    const file = readdirSync(join(folder, 'pack'), { recursive: true, encoding: 'utf8' }).find((name) =>
      /plan.*\.json$/.test(name),
    )!
    writeFileSync(join(folder, 'pack', file), `${readFileSync(join(folder, 'pack', file), 'utf8')} `)
    expect((await mplp(folder, ['evidence', 'verify', 'pack'])).code).toBe(3)
  })

  it('proves the store', async () => {
    const { code, values } = await mplpJson(folder, ['store', 'verify'])
    expect({ code, values }).toEqual({ code: 0, values: [{ contexts: 1, findings: [] }] })
  })

  it('has nothing running and nothing to resume when all has ended', async () => {
    expect((await mplpJson(folder, ['list'])).values).toEqual([[]])
    expect(await mplpJson(folder, ['resume'])).toMatchObject({ code: 0, values: [{ resumed: [] }] })
  })
})

describe('a plan that asks', { timeout: PATIENT }, () => {
  it('ends with 2 while it waits, is listed, and completes once approved', async () => {
    const folder = withFlow({ needed: 1, roles: ['dba'], reason: 'touches the database' })
    const ran = await mplpJson<Ran>(folder, ['run', 'flow.json'])
    const confirm = ran.values[0]!.confirms[0]!
    expect(ran).toMatchObject({ code: 2, values: [{ status: 'waiting' }] })
    const listed = await mplp(folder, ['confirm', 'list'])
    expect(listed.out).toContain(`${confirm} touches the database`)
    const wrong = await mplp(folder, ['confirm', 'approve', confirm, '--role', 'intern'])
    expect(wrong.code).toBe(1)
    expect(oneLine(wrong)).toContain('intern')
    const approved = await mplpJson(folder, ['confirm', 'approve', confirm, '--role', 'dba'])
    expect(approved).toMatchObject({ code: 0, values: [{ confirm_id: confirm, status: 'approved' }] })
    await mplp(folder, ['resume'])
    expect((await mplpJson(folder, ['show', ran.values[0]!.plan_id])).values).toMatchObject([{ status: 'completed' }])
  })

  it('goes back to a draft when rejected, and ends when cancelled', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { values } = await mplpJson<Ran>(folder, ['run', 'flow.json'])
    const { confirms, plan_id } = values[0]!
    const rejected = await mplpJson(folder, ['confirm', 'reject', confirms[0]!, '--reason', 'no'])
    expect(rejected).toMatchObject({ code: 0, values: [{ status: 'rejected' }] })
    expect((await mplpJson(folder, ['show', plan_id])).values).toMatchObject([{ status: 'draft' }])
    expect(await mplpJson(folder, ['cancel', plan_id])).toMatchObject({ code: 0, values: [{ status: 'cancelled' }] })
  })

  it('is approved by the one who runs it, if asked to', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { code, values } = await mplpJson<Ran>(folder, ['run', 'flow.json', '--approve', 'lead'])
    expect({ code, status: values[0]!.status }).toEqual({ code: 0, status: 'completed' })
  })
})

describe('a plan that fails', { timeout: PATIENT }, () => {
  it('ends with 1 and says what failed', async () => {
    const folder = withFlow('auto', 'no-such-file.txt')
    const failed = await mplp(folder, ['run', 'flow.json'])
    expect(failed.code).toBe(1)
    expect(failed.out).toMatch(/^failed: .*no-such-file/m)
  })
})

describe('bad input', { timeout: PATIENT }, () => {
  it.each([
    ['an unknown verb', ['rnu', 'flow.json'], 64, "unknown command 'rnu'"],
    ['a missing argument', ['show'], 64, "missing required argument 'id'"],
    ['an unknown option', ['list', '--nope'], 64, "unknown option '--nope'"],
    ['a flow that does not exist', ['run', 'absent.json'], 64, 'absent.json is not valid: (root) does not exist'],
    ['a flow that is no JSON', ['run', 'broken.json'], 64, 'cannot be understood'],
    ['a flow of the wrong shape', ['run', 'shapeless.json'], 64, 'plan'],
    ['an unknown id', ['show', 'absent'], 1, 'there is no object absent'],
    ['a run that is not there', ['cancel', 'absent'], 1, 'there is no run absent'],
    ['a store of no kind', ['list', '--store', 'mysql://localhost'], 64, 'url begins with none of memory:'],
    ['a config file that is not there', ['list', '--config', 'absent.json'], 64, 'does not exist'],
    ['a config with an unknown key', ['list', '--config', 'misspelt.json'], 64, 'did you mean vsl?'],
    ['a pack that is not there', ['evidence', 'verify', 'absent'], 64, 'absent is not valid: (root) is no folder'],
  ])('refuses %s in one line and changes nothing', async (_, args, code, says) => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'broken.json'), '{ "plan": ')
    writeFileSync(join(folder, 'shapeless.json'), '{ "plan": 7 }')
    writeFileSync(join(folder, 'misspelt.json'), '{ "vls": "memory:" }')
    const refused = await mplp(folder, [...args, ...(args.includes('--store') ? [] : ['--store', 'memory:'])])
    expect({ code: refused.code, out: refused.out }).toEqual({ code, out: '' })
    expect(refused.err.split('\n')[0]).toMatch(/^mplp: /)
    expect(refused.err).toContain(says)
    expect(refused.err).not.toMatch(/^ +at /m)
    expect(readdirSync(folder).sort()).toEqual(['broken.json', 'misspelt.json', 'shapeless.json'])
  })

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
