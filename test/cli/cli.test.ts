import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { passingFailure } from '../../src/ael/failure.ts'
import type { Delivery } from '../../src/bus/transport.ts'
import type { Check } from '../../src/cli/doctor.ts'
import { table } from '../../src/cli/io.ts'
import { openRuntime } from '../../src/compose.ts'
import type { Question } from '../../src/orchestrator/questions.ts'
import { deliveriesOf } from '../../src/orchestrator/relay-feed.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { type JsonObject, uuidOf } from '../../src/protocol/json.ts'
import { INDEX } from '../../src/psg/indexes.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { hereJson, mplpHere } from './here.ts'
import { type Ended, mplp, mplpJson, mplpUnheard, mplpUnread, mplpUnwritten, oneLine } from './mplp.ts'

interface Ran {
  readonly run_id: string
  readonly plan_id: string
  readonly context_id: string
  readonly steps: { readonly [name: string]: string }
  readonly status: string
  readonly confirms: readonly string[]
}

const PATIENT = 120_000

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
    step = ran.values[0]!.steps.read!
  }, PATIENT)

  it('begins with a config and a flow that runs', () => {
    expect(init).toMatchObject({ code: 0, err: '' })
    expect(ran).toMatchObject({ code: 0, err: '', values: [{ status: 'completed', success: true }] })
    expect(readFileSync(join(folder, 'hello.txt'), 'utf8')).toBe('hello\n')
  })

  it('holds against the graph what lies there, and not the packages that it has installed', async () => {
    const other = tempFolder()
    for (const path of ['node_modules/a', 'src/node_modules/b']) mkdirSync(join(other, path), { recursive: true })
    for (const path of ['node_modules/a/index.js', 'src/node_modules/b/index.js', 'src/own.js'])
      writeFileSync(join(other, path), '')
    await mplpHere(other, ['init'])
    const { values } = await hereJson<{ files: number }>(other, ['drift', 'scan'])
    expect(values).toMatchObject([{ files: 3 }]) // its own, the config and the flow
  })

  it('is left as it is by a second init', async () => {
    const before = readFileSync(join(folder, 'flow.json'), 'utf8')
    const again = await mplpHere(folder, ['init'])
    expect(again.code).toBe(1)
    expect(oneLine(again)).toContain('mplp.config.json is there already')
    expect(readFileSync(join(folder, 'flow.json'), 'utf8')).toBe(before)
  })

  it.each(['flow.json', 'mplp.config.ts'])('is not begun where a file of it is there already: %s', async (name) => {
    for (const make of [writeFileSync, (path: string) => symlinkSync('nowhere', path)]) {
      const other = tempFolder()
      make(join(other, name), '')
      const refused = await mplpHere(other, ['init'])
      expect(refused.code).toBe(1)
      expect(oneLine(refused)).toBe(`mplp: ${name} is there already; init works in a folder without it`)
      expect(readdirSync(other)).toEqual([name])
    }
  })

  it('may be run as often as one likes: a flow in short has no ids', async () => {
    const other = tempFolder()
    await mplpHere(other, ['init'])
    const twice = [await hereJson<Ran>(other, ['run', 'flow.json']), await hereJson<Ran>(other, ['run', 'flow.json'])]
    expect(twice.map(({ code }) => code)).toEqual([0, 0])
    const [first, second] = twice.map(({ values }) => values[0]!)
    expect(Object.keys(second!.steps)).toEqual(['write', 'read'])
    for (const id of ['run_id', 'plan_id', 'context_id'] as const) expect(first![id]).not.toBe(second![id])
  })

  it('refuses a flow with ids the second time, since they are taken', async () => {
    const other = withFlow('auto')
    const { values } = await hereJson<Ran>(other, ['run', 'flow.json'])
    const { plan_id } = values[0]!
    const again = await mplpHere(other, ['run', 'flow.json'])
    expect(again.code).toBe(1)
    const said = new RegExp(`^mplp: plan ${plan_id} was submitted before; mplp show ${plan_id} shows`)
    expect(oneLine(again)).toMatch(said)
  })

  it('says the same to the slower of two that run one flow at the same moment', async () => {
    const both = withFlow('auto')
    const before = process.cwd()
    process.chdir(both) // which both of them leave as they found it
    const ran = await Promise.all([1, 2].map(() => mplpHere(both, ['run', 'flow.json']))).finally(() =>
      process.chdir(before),
    )
    const [done, refused] = ran.sort((a, b) => a.code - b.code)
    expect([done?.code, refused?.code]).toEqual([0, 1])
    expect(oneLine(refused!)).toMatch(/^mplp: plan \S+ was submitted before; mplp show/)
  })

  it.each(['pause', 'resume'])('refuses to %s a run that has ended', async (verb) => {
    const refused = await mplpHere(folder, [verb, plan])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toBe(`mplp: ${verb} is not valid: run ${plan} has ended`)
  })

  it('shows a run with what its steps gave', async () => {
    const { run_id, steps } = ran.values[0]!
    const { values } = await hereJson(folder, ['show', run_id])
    expect(values).toMatchObject([{ run_id, phase: 'ended', outputs: { [steps.read!]: { content: 'hello\n' } } }])
  })

  it('shows a run with its children, and a child with its parent', async () => {
    const other = tempFolder()
    const functions = '{ greet: () => 1, parent: async (flow, { child }) => (await child(flow)).status }'
    writeFileSync(
      join(other, 'mplp.config.mjs'),
      `export default { vsl: 'sqlite:./state.db', functions: ${functions} }`,
    )
    const id = uuidOf('a child')
    const child = flowOf({ greet: {} }, { chosen: { run: id } })
    const params = { name: 'parent', args: { ...child } as unknown as JsonObject }
    writeFileSync(join(other, 'flow.json'), JSON.stringify(flowOf({ parent: { binding: { params } } })))
    const { values } = await hereJson<Ran>(other, ['run', 'flow.json'])
    const { run_id } = values[0]!
    expect((await hereJson(other, ['show', run_id])).values).toMatchObject([{ phase: 'ended', children: [id] }])
    const shown = await hereJson(other, ['show', id])
    expect(shown.values).toMatchObject([{ run_id: id, phase: 'ended', parent: { run_id } }])
    expect(shown.values[0]).not.toHaveProperty('children')
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

  it('tells what a step has failed of, for good or for now, and its plan with it', async () => {
    const other = tempFolder()
    const vsl = `sqlite:${join(other, '.mplp/state.db')}`
    const fails = () => Promise.reject(passingFailure('the till is shut\nfor today'))
    const runtime = await openRuntime({ vsl, functions: { charge: fails, greet: () => 1 } })
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 3_600_000 } as const
    const flows = [flowOf({ greet: {}, charge: { after: ['greet'] } }), flowOf({ charge: { binding: { retry } } })]
    await (await runtime.submit(flows[0]!)).result()
    const later = await runtime.submit(flows[1]!)
    for await (const { event } of later.events()) if (event.event_type === 'execution_failed') break
    await runtime.close()
    const lastOf = async (id: string) => (await mplpHere(other, ['why', id])).out.trim().split('\n').at(-1)?.trim()
    const [failed, tried] = flows.map(({ ids }) => ids.charge!)
    expect(await lastOf(failed!)).toBe(`step ${failed} charge (failed: the till is shut)`)
    expect(await lastOf(tried!)).toBe(`step ${tried} charge (in_progress: the till is shut)`)
    expect(await lastOf(flows[0]!.ids.greet!)).toBe(`step ${flows[0]!.ids.greet} greet (completed)`)
    const { plan_id } = flows[0]!.plan
    expect(await lastOf(plan_id)).toBe(`plan ${plan_id} A plan (failed in step ${failed}: the till is shut)`)
    const { values } = await hereJson<{ error?: object }[]>(other, ['why', failed!])
    expect(values[0]!.at(-1)!.error).toMatchObject({ code: 'action_failed', message: 'the till is shut\nfor today' })
  })

  it('tells why a file is there, by its path, up to the context of the run that wrote it', async () => {
    const { values } = await hereJson<{ kind: string; id: string }[]>(folder, ['why', 'hello.txt'])
    expect(values[0]!.map(({ kind }) => kind)).toEqual(['context', 'plan', 'confirm', 'step', 'action', 'file'])
    expect(values[0]!.map(({ id }) => id)).toContain(plan)
    expect((await hereJson(folder, ['show', 'hello.txt'])).values).toMatchObject([{ path: 'hello.txt', size: 6 }])
    expect((await hereJson<object[]>(folder, ['history', 'hello.txt'])).values[0]).toHaveLength(1)
    for (const name of ['./hello.txt', join(folder, 'hello.txt')])
      expect((await hereJson(folder, ['show', name])).values).toMatchObject([{ path: 'hello.txt', size: 6 }])
    expect(await mplpHere(folder, ['why', 'absent.txt'])).toMatchObject({ code: 1, out: '' })
  })

  it('tells of a file that was deleted what it was, when it went and by whom', async () => {
    const other = tempFolder()
    await mplpHere(other, ['init'])
    await mplpHere(other, ['run', 'flow.json'])
    rmSync(join(other, 'hello.txt'))
    await mplpHere(other, ['drift', 'scan'])
    await mplpHere(other, ['drift', 'reconcile', 'hello.txt', '--strategy', 'files'])
    const deleted = { at: expect.stringMatching(/Z$/), actor: 'drift', reason: 'reconciled by hand: files' }
    const { values } = await hereJson(other, ['show', './hello.txt'])
    expect(values).toMatchObject([{ path: 'hello.txt', size: 6, deleted }])
    expect((await mplpHere(other, ['why', 'hello.txt'])).out).toMatch(/hello\.txt \(deleted\)\n$/)
    expect((await mplpHere(other, ['history', 'hello.txt'])).out).toMatch(/ deleted +reconciled by hand: files\n$/)
  })

  it('tells of each link in its chain what it is once, and how it stands', async () => {
    const of = async (name: string) =>
      (await mplpHere(folder, ['why', name])).out.split('\n').map((line) => line.trim().replace(/[0-9a-f-]{36}/, '…'))
    expect((await of(ran.values[0]!.run_id)).slice(-3, -1)).toEqual(['trace … (completed)', 'run … (completed)'])
    expect((await of('hello.txt')).slice(2, 5)).toEqual([
      'confirm … (approved by policy)',
      'step … Write a greeting (completed)',
      'action … file_operation (completed)',
    ])
  })

  it('tells every status that a step went through', async () => {
    const { values } = await hereJson<{ after: { status: string } }[]>(folder, ['history', step])
    expect(values[0]!.map(({ after }) => after.status)).toEqual(['pending', 'in_progress', 'completed'])
  })

  it('draws the plan for Mermaid and for Graphviz', async () => {
    expect((await mplpHere(folder, ['graph', plan])).out).toMatch(/^(flowchart|graph) /)
    expect((await mplpHere(folder, ['graph', plan, '--dot'])).out).toMatch(/^digraph/)
  })

  it('draws a context with the plans that have ended', async () => {
    const { values } = await hereJson<{ nodes: { kind: string }[] }>(folder, ['graph', ran.values[0]!.context_id])
    const kinds = values[0]!.nodes.map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'step')).toHaveLength(2)
    expect(kinds).toEqual(expect.arrayContaining(['context', 'plan', 'confirm', 'trace']))
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

  it('tells of an event what every bus and GET /events tell of it: also its context, its plan and its place in the commit', async () => {
    const { values } = await hereJson<Delivery>(folder, ['events', '--plan', plan])
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    onTestFinished(() => store.close())
    const told: Delivery[] = []
    for await (const entry of store.feed()) told.push(...deliveriesOf(entry))
    expect(values).toEqual(told.filter(({ plan_id }) => plan_id === plan))
  })

  it('tells of the events of a run that is watched the same, and to people which step each is about', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    const { values } = await hereJson<Delivery | Ran>(folder, ['run', 'flow.json', '--events'])
    const { plan_id } = values.at(-1) as Ran
    const told = await hereJson<Delivery>(folder, ['events', '--plan', plan_id])
    expect(values.slice(0, -1)).toEqual(told.values)
    const { run_id } = values.at(-1) as Ran
    expect((await hereJson<Delivery>(folder, ['events', '--plan', run_id])).values).toEqual(told.values)
    const stagesIn = ({ out }: { readonly out: string }) => {
      const lines = out
        .split('\n')
        .map((line) => line.replace(/^\S+Z (\S+) pipeline_stage/, '$1').replace(/^\S+Z /, ''))
      return lines.filter((line) => /^(step_|plan_status)/.test(line))
    }
    const stages = [
      ...['proposed', 'approved', 'in_progress'].map((status) => `plan_status_changed ${status}`),
      ...['step_started Write a greeting', 'step_completed Write a greeting'],
      ...['step_started Read it back', 'step_completed Read it back'],
      'plan_status_changed completed',
    ]
    expect(stagesIn(await mplpHere(folder, ['run', 'flow.json', '--events']))).toEqual(stages)
    const events = await mplpHere(folder, ['events', '--plan', plan_id])
    expect(stagesIn(events)).toEqual(stages)
    expect(events.out).toMatch(/Z execution_started runtime_execution Read it back$/m)
    const begun = told.values.find(({ event }) => event.event_type === 'step_started') as Delivery
    expect(stagesIn(await mplpHere(folder, ['events', '--plan', plan_id, '--after', begun.position]))[0]).toBe(
      `step_completed ${String(begun.event.stage_id)}`, // how it is called was said before
    )
  })

  it('is told of each event in one line, whatever its steps are called', async () => {
    const folder = tempFolder()
    const wait = { action_type: 'wait', params: { ms: 1 } }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Waits', steps: { 'Wait\nfor it': wait } }))
    for (const verb of [['run', 'flow.json', '--events'], ['events']]) {
      const { out } = await mplpHere(folder, verb)
      expect(out).toMatch(/Z step_completed .*Wait for it$/m)
      expect(out).not.toMatch(/^for it/m)
    }
  })

  it('exports evidence that verifies, and that no longer does when a byte is changed', async () => {
    const exported = await hereJson<{ files: string[]; root: string }>(folder, ['evidence', 'export', plan, 'pack'])
    expect(exported).toMatchObject({ code: 0, err: '' })
    expect(await hereJson(folder, ['evidence', 'verify', 'pack'])).toMatchObject({
      code: 0,
      values: [{ outcome: 'ADMISSIBLE', root: exported.values[0]!.root }],
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

it('says of a run that it took up of what it failed', { timeout: PATIENT }, async () => {
  const message = 'there is no file absent.txt'
  const detached = async () => {
    const folder = withFlow('auto', 'absent.txt')
    const { values } = await hereJson<Ran>(folder, ['run', 'flow.json', '--detach'])
    return { folder, plan_id: values[0]!.plan_id }
  }
  const { folder, plan_id } = await detached()
  const out = `${plan_id} failed: ${message}\n1 taken up\n`
  expect(await mplpHere(folder, ['resume'])).toMatchObject({ code: 1, out })
  const { values } = await hereJson((await detached()).folder, ['resume'])
  expect(values).toMatchObject([{ resumed: [{ status: 'failed', error: { message } }] }])
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
    const unseen = await mplpHere(folder, ['confirm', 'approve', confirm, '--role', 'dba', '--digest', 'sha256:0'])
    expect(unseen.code).toBe(64)
    expect(oneLine(unseen)).toContain('digest is not of what is up for decision now')
    const [[{ digest }]] = (await hereJson<{ digest: string }[]>(folder, ['confirm', 'list'])).values as [
      [{ digest: string }],
    ]
    const approved = await hereJson(folder, ['confirm', 'approve', confirm, '--role', 'dba', '--digest', digest])
    expect(approved).toMatchObject({ code: 0, values: [{ confirm_id: confirm, status: 'approved' }] })
    await mplpHere(folder, ['resume'])
    expect((await hereJson(folder, ['show', ran.values[0]!.plan_id])).values).toMatchObject([{ status: 'completed' }])
  })

  it('is told with the command that decides it, in a role that may', async () => {
    const folder = withFlow({ roles: ["the owner's dba", 'lead'], needed: 2, reason: 'really?' })
    const asked = await mplpHere(folder, ['run', 'flow.json'])
    const [, command] = /^ {2}mplp (confirm approve .*) {3}really\?$/m.exec(asked.out) ?? []
    expect(command).toMatch(/^confirm approve [0-9a-f-]{36} --role 'the owner'\\''s dba'$/)
    const listed = await mplpHere(folder, ['confirm', 'list'])
    expect(listed.out).toContain("  may be decided by the owner's dba, lead; 2 of them must approve\n")
    const [question] = (await hereJson<Question[]>(folder, ['confirm', 'list'])).values[0]!
    expect(question).toMatchObject({ roles: ["the owner's dba", 'lead'], needed: 2 })
    expect((await mplpHere(folder, ['doctor'])).out).toContain(`remedy: mplp ${command}, or reject\n`)
  })

  it('is listed with what it asks, also where it is about a file and has no plan', async () => {
    const folder = tempFolder()
    await mplpHere(folder, ['init'])
    await mplpHere(folder, ['drift', 'scan'])
    writeFileSync(join(folder, 'notes.md'), 'a line')
    await mplpHere(folder, ['drift', 'scan'])
    expect((await mplpHere(folder, ['list'])).out).toMatch(
      /^waiting {2}confirm \S+ {2}context \S+ {2}notes.md was added;/,
    )
  })

  it('is known by its title where it gives no reason', async () => {
    const folder = withFlow({ needed: 1 })
    const { confirms } = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values[0]!
    expect((await mplpHere(folder, ['confirm', 'list'])).out).toContain(`${confirms[0]} plan “A plan”\n`)
    expect((await mplpHere(folder, ['list'])).out).toMatch(/^waiting {2}confirm .* {2}plan “A plan”$/m)
    expect((await mplpHere(folder, ['doctor'])).out).toMatch(/: plan “A plan”\n {2}remedy: mplp confirm approve/)
  })

  it('is listed page by page', async () => {
    const folder = withFlow({ needed: 1 })
    for (const at of [folder, withFlow({ needed: 1 })])
      expect((await mplpHere(folder, ['run', join(at, 'flow.json')])).code).toBe(2)
    const page = async (...args: readonly string[]) =>
      (await hereJson<Question[]>(folder, ['confirm', 'list', ...args])).values[0]!.map(
        ({ confirm }) => confirm.confirm_id,
      )
    const [first, second] = (await page()).sort()
    expect(await page('--limit', '1')).toEqual([first])
    expect(await page('--limit', '1', '--after', first!)).toEqual([second])
    const { out } = await mplpHere(folder, ['confirm', 'list', '--after', second!])
    expect(out).toBe('nothing more waits for a person\n')
  })

  it('is over once its time is, also where mplp resume is the only worker, and so is a wait for a signal', async () => {
    const folder = tempFolder()
    const clock = { ...systemClock, now: () => systemClock.now() - 3_600_000 }
    const runtime = await openRuntime({ vsl: `sqlite:${join(folder, '.mplp/state.db')}` }, { clock })
    const wait = { action_type: 'wait', params: { ms: 1 } }
    const approval = { expires_ms: 60_000 }
    const signalled = { action_type: 'wait', params: { signal: 'go' }, timeout_ms: 60_000, on_failure: 'skip' } as const
    const flows = [
      flowOf({ one: { binding: wait } }, { approval }),
      flowOf({ one: { binding: { ...wait, approval } } }),
      flowOf({ one: { binding: signalled } }),
      flowOf({ one: { binding: { action_type: 'wait', params: { signal: 'go' } } } }),
    ]
    for (const flow of flows) await (await runtime.submit(flow)).rest()
    const budgeted = flowOf(
      { one: { binding: { action_type: 'wait', params: { signal: 'go' } } } },
      { options: { deadline: new Date(systemClock.now() - 60_000).toISOString() } },
    )
    const paused = await runtime.submit(budgeted)
    await paused.rest()
    await runtime.pause(paused.run_id)
    await paused.rest()
    await runtime.close()
    const resumed = await hereJson<{ resumed: { plan_id: string; status: string }[]; waiting: string[] }>(folder, [
      'resume',
    ])
    const [given] = resumed.values
    const statuses = flows.map(({ plan }) => given!.resumed.find(({ plan_id }) => plan_id === plan.plan_id)?.status)
    expect(statuses).toEqual(['cancelled', 'failed', 'completed', undefined])
    expect(given!.resumed.find(({ plan_id }) => plan_id === paused.plan_id)).toMatchObject({ status: 'failed' })
    expect(given!.waiting).toEqual([flows[3]!.plan.plan_id])
  })

  it('is listed by nobody once nobody can answer in time any more, though its run is paused and does not take that in', async () => {
    const folder = tempFolder()
    const clock = { ...systemClock, now: () => systemClock.now() - 3_600_000 }
    const runtime = await openRuntime(
      { vsl: `sqlite:${join(folder, '.mplp/state.db')}`, functions: { noop: () => 1 } },
      { clock },
    )
    const asks = (expires_ms: number) => flowOf({ noop: { binding: { approval: { expires_ms, reason: 'really?' } } } })
    const [late, open] = [await runtime.submit(asks(60_000)), await runtime.submit(asks(7_200_000))]
    for (const run of [late, open]) {
      await run.rest()
      await runtime.pause(run.run_id)
      await run.rest()
    }
    await runtime.close()
    const listed = (await hereJson<Question[]>(folder, ['confirm', 'list'])).values[0]!
    expect(listed.map(({ plan_id }) => plan_id)).toEqual([open.plan_id])
    const [{ confirm }] = listed as [Question]
    const rows = (await hereJson<{ confirm_id?: string; plan_id?: string; waits_for: string[] }[]>(folder, ['list']))
      .values[0]!
    expect(rows.flatMap(({ confirm_id }) => confirm_id ?? [])).toEqual([confirm.confirm_id])
    expect(rows.find(({ plan_id }) => plan_id === late.plan_id)!.waits_for).toEqual([
      expect.stringMatching(/^a worker to take in that nobody has decided on .* in time$/),
    ])
    const checks = (await hereJson<Check[]>(folder, ['doctor'])).values[0]!
    expect(checks.filter(({ check }) => check === 'confirm')).toMatchObject([
      { says: expect.stringContaining(confirm.confirm_id) },
    ])
    expect(checks.find(({ says }) => says.includes(late.plan_id))).toMatchObject({
      says: expect.stringContaining('a worker to take in that nobody has decided on'),
      remedy: expect.stringContaining(`mplp resume ${late.plan_id}`),
    })
  })

  it('says after each answer what is still needed: the next role that must agree, then a worker', async () => {
    const folder = withFlow({ roles: ['dba', 'lead'], needed: 2 })
    const { confirms } = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values[0]!
    const answer = async (role: string) =>
      (await mplpHere(folder, ['confirm', 'approve', confirms[0]!, '--role', role])).out
    const rest = `mplp confirm approve ${confirms[0]} --role lead`
    expect(await answer('dba')).toBe(`${confirms[0]} is pending; 2 roles must approve: ${rest}\n`)
    expect((await mplpHere(folder, ['confirm', 'list'])).out).toContain('; 2 of them must approve; approved by dba\n')
    expect((await mplpHere(folder, ['doctor'])).out).toContain(`remedy: ${rest}, or reject`)
    const worker = 'its worker goes on; where there is none, mplp resume does'
    expect(await answer('lead')).toBe(`${confirms[0]} is approved; ${worker}\n`)
    const anybody = withFlow({ needed: 2 })
    const [asked] = (await hereJson<Ran>(anybody, ['run', 'flow.json'])).values
    const { out } = await mplpHere(anybody, ['confirm', 'approve', asked!.confirms[0]!])
    expect(out).toContain(`2 roles must approve: mplp confirm approve ${asked!.confirms[0]} --role <another>\n`)
  })

  it('says after a rejection what becomes of the run', async () => {
    const reject = async (folder: string) => {
      const [{ confirms, plan_id }] = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values as [Ran]
      const { out } = await mplpHere(folder, ['confirm', 'reject', confirms[0]!])
      return out.replace(confirms[0]!, '<confirm>').replaceAll(plan_id, '<plan>')
    }
    expect(await reject(withFlow({}))).toBe(
      '<confirm> is rejected; its plan is a draft: mplp propose <plan> asks again, mplp cancel <plan> gives it up\n',
    )
    const step = tempFolder()
    const one = { action_type: 'wait', params: { ms: 1 }, approval: 'ask' }
    writeFileSync(join(step, 'flow.json'), JSON.stringify({ title: 'Asks', steps: { one } }))
    expect(await reject(step)).toBe(
      '<confirm> is rejected; its worker goes on; where there is none, mplp resume does\n',
    )
  })

  it('says after an answer that the run is paused, or is to be: no worker goes on with it then', async () => {
    const folder = tempFolder()
    const one = { action_type: 'wait', params: { ms: 1 }, approval: 'ask' }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Asks', steps: { one } }))
    const [{ confirms, plan_id }] = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values as [Ran]
    await mplpHere(folder, ['pause', plan_id])
    const { out } = await mplpHere(folder, ['confirm', 'approve', confirms[0]!])
    expect(out).toBe(`${confirms[0]} is approved; its run is paused: mplp resume ${plan_id} has it go on\n`)
    expect(await hereJson(folder, ['resume', plan_id])).toMatchObject({ code: 0 })
  })

  it('is decided in a role that has a name', async () => {
    const folder = withFlow({ reason: 'really?' })
    const [asked] = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values
    const refused = await mplpHere(folder, ['confirm', 'approve', asked!.confirms[0]!, '--role', ''])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toBe('mplp: the command line is not valid: --role is empty')
    const other = withFlow({ reason: 'really?' })
    const unapproved = await mplpHere(other, ['run', 'flow.json', '--approve', ''])
    expect(oneLine(unapproved)).toBe('mplp: the command line is not valid: --approve is empty')
    expect(readdirSync(other)).toEqual(['flow.json'])
  })

  it('goes back to a draft when rejected, and ends when cancelled', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { values } = await hereJson<Ran>(folder, ['run', 'flow.json'])
    const { confirms, plan_id } = values[0]!
    const rejected = await hereJson(folder, ['confirm', 'reject', confirms[0]!, '--reason', 'no'])
    expect(rejected).toMatchObject({ code: 0, values: [{ status: 'rejected' }] })
    expect((await hereJson(folder, ['show', plan_id])).values).toMatchObject([{ status: 'draft' }])
    const again = await mplpHere(folder, ['confirm', 'approve', confirms[0]!])
    expect(oneLine(again)).toBe(`mplp: refused: plan ${plan_id} is draft, not up for approval [decision.allowed]`)
    expect(await hereJson(folder, ['cancel', plan_id])).toMatchObject({ code: 0, values: [{ status: 'cancelled' }] })
  })

  it('is proposed again, which asks the same people', async () => {
    const folder = withFlow({ roles: ['dba'] })
    const [{ confirms, plan_id }] = (await hereJson<Ran>(folder, ['run', 'flow.json'])).values as [Ran]
    const reject = () => mplpHere(folder, ['confirm', 'reject', confirms[0]!, '--role', 'dba'])
    await reject()
    const again = await hereJson(folder, ['propose', plan_id, '--role', 'planner', '--reason', 'a backup was made'])
    expect(again).toMatchObject({ code: 0, values: [{ confirm_id: confirms[0], status: 'pending' }] })
    const why = (await mplpHere(folder, ['history', plan_id])).out
    expect(why).toMatch(/planner.*a backup was made/)
    await reject()
    const { out } = await mplpHere(folder, ['propose', plan_id])
    expect(out).toBe(`the plan is proposed again: mplp confirm approve ${confirms[0]} --role dba\n`)
    const twice = await mplpHere(folder, ['propose', plan_id])
    expect({ code: twice.code, said: oneLine(twice) }).toEqual({
      code: 1,
      said: expect.stringMatching(/^mplp: refused: .*proposed/),
    })
    expect(await mplpHere(folder, ['confirm', 'approve', confirms[0]!, '--role', 'dba'])).toMatchObject({ code: 0 })
    expect(await mplpHere(folder, ['resume'])).toMatchObject({ code: 0 })
  })

  it('is approved by the one who runs it, if asked to', async () => {
    const folder = withFlow({ reason: 'really?' })
    const { code, values } = await hereJson<Ran>(folder, ['run', 'flow.json', '--approve', 'lead'])
    expect({ code, status: values[0]!.status }).toEqual({ code: 0, status: 'completed' })
  })

  it('is not begun for somebody who may not approve it', async () => {
    const folder = withFlow({ roles: ['dba', 'lead'] })
    const refused = await mplpHere(folder, ['run', 'flow.json', '--approve', 'intern'])
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toBe('mplp: run is not valid: --approve is none of dba, lead: only they may approve it')
    expect(readdirSync(folder)).toEqual(['flow.json'])
  })

  it('waits where an action of it is for others to approve than the one who runs it, and says for whom', async () => {
    const folder = tempFolder()
    const one = { action_type: 'wait', params: { ms: 1 }, approval: { roles: ['dba'] } }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Asks', approval: {}, steps: { one } }))
    const { code, out, err } = await mplpHere(folder, ['run', 'flow.json', '--approve', 'intern'])
    expect(code).toBe(2)
    const [, confirm] = /mplp confirm approve (\S+) --role dba/.exec(out) ?? []
    expect(err).toBe(`mplp: not approved as intern: ${confirm} is for dba\n`)
  })

  it.each([
    { more: [], ends: 2 },
    { more: ['--approve', 'lead'], ends: 0 },
  ])('opens no other context that asks, with $more', async ({ more, ends }) => {
    const folder = withFlow({ reason: 'really?' })
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    const elsewhere = { graph: systemClock.uuid(), group: systemClock.uuid() } // who opens it finds nothing
    const asks = [[INDEX.waiting(systemClock.uuid()), elsewhere]] as const
    await store.commit({ stream: 'another', expected: 0, inserts: asks, puts: [], deletes: [] })
    await store.close()
    expect(await mplpHere(folder, ['run', 'flow.json', ...more])).toMatchObject({ code: ends })
  })
})

describe('a run whose child asks', { timeout: PATIENT }, () => {
  function withParent(asks: JsonObject, more: JsonObject = {}) {
    const folder = tempFolder()
    const functions = '{ greet: () => 1, parent: async (flow, { child }) => (await child(flow)).status }'
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      `export default { vsl: 'sqlite:./state.db', functions: ${functions} }`,
    )
    const child = flowOf({ greet: { binding: asks } }, { chosen: { run: uuidOf('a child') } })
    const params = { name: 'parent', args: { ...child } as unknown as JsonObject }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flowOf({ parent: { binding: { params, ...more } } })))
    return { folder, child: uuidOf('a child'), plan: child.plan.plan_id }
  }
  const LEAD = { approval: { roles: ['lead'] } }

  it('ends with 2, says how that is answered, and goes on with the answer', async () => {
    const { folder, child } = withParent(LEAD)
    const asked = await mplpHere(folder, ['run', 'flow.json'])
    expect(asked.code).toBe(2)
    const [, answer] = /^ {2}mplp (confirm approve \S+ --role lead)/m.exec(asked.out) ?? []
    const { values } = await hereJson<{ plan_id: string; run_id: string; parent?: object }[]>(folder, ['list'])
    const parent = values[0]!.find((row) => row.run_id !== undefined && row.parent === undefined)!
    const confirm = answer!.split(' ')[2]
    const waits_for = [`the child ${child}: the decision ${confirm}`]
    expect(parent).toMatchObject({ phase: 'running', waits_for })
    expect((await hereJson(folder, ['show', parent.run_id])).values).toMatchObject([{ children: [child], waits_for }])
    expect(await mplpHere(folder, answer!.split(' '))).toMatchObject({ code: 0 })
    expect(await hereJson(folder, ['resume'])).toMatchObject({ code: 0 })
    expect((await hereJson(folder, ['show', parent.run_id])).values).toMatchObject([{ phase: 'ended' }])
  })

  it('is approved by the one who runs its parent, if asked to', async () => {
    const { code, values } = await hereJson<Ran>(withParent(LEAD).folder, ['run', 'flow.json', '--approve', 'lead'])
    expect({ code, status: values[0]!.status }).toEqual({ code: 0, status: 'completed' })
  })

  it('is not taken back with its parent, and who takes that back is told so, unless the step says how', async () => {
    const inverse = { action_type: 'function', params: { name: 'greet' } }
    const { folder, child } = withParent({})
    expect((await mplpHere(folder, ['run', 'flow.json'])).code).toBe(0)
    const { values } = await hereJson<{ parent: { run_id: string } }>(folder, ['show', child])
    const { run_id } = values[0]!.parent
    const told = await mplpHere(folder, ['rollback', run_id, '--dry-run'])
    expect(told.err).toBe(
      `mplp: what its children did stays: mplp show ${run_id} names them, and each is taken back by itself\n`,
    )
    const shown = await hereJson(folder, ['rollback', run_id, '--dry-run'])
    expect(shown.values).toMatchObject([{ status: 'planned', children: [child] }])
    expect((await mplpHere(folder, ['rollback', child, '--dry-run'])).err).toBe('')

    const other = withParent({}, { inverse })
    const { values: ran } = await hereJson<Ran>(other.folder, ['run', 'flow.json'])
    expect((await mplpHere(other.folder, ['rollback', ran[0]!.plan_id, '--dry-run'])).err).toBe('')
  })

  it('ends with 2 and says which run is to be given the signal', async () => {
    const { folder, child, plan } = withParent({ action_type: 'wait', params: { signal: 'go' } })
    const asked = await mplpHere(folder, ['run', 'flow.json'])
    expect(asked.code).toBe(2)
    expect(asked.out).toContain(`waiting for the child ${child}: the signal go: mplp signal ${plan} go\n`)
  })
})

describe('a run that needs more than one word', { timeout: PATIENT }, () => {
  it('ends with 2 when what was approved needs another role too', async () => {
    const folder = withFlow({ roles: ['dba', 'lead'], needed: 2 })
    const { code, values } = await hereJson<Ran>(folder, ['run', 'flow.json', '--approve', 'dba'])
    expect({ code, status: values[0]!.status }).toEqual({ code: 2, status: 'waiting' })
    expect(values[0]!.confirms).toHaveLength(1)
  })

  it.each([['--approve', 'user'], ['--events']])('ends with 2 when it waits for a signal, with %s', async (...more) => {
    const folder = tempFolder()
    const held = flowOf({ hold: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    writeFileSync(join(folder, 'held.json'), JSON.stringify(held))
    const { code, values } = await hereJson<Ran>(folder, ['run', 'held.json', ...more])
    expect({ code, last: values.at(-1) }).toMatchObject({
      code: 2,
      last: { plan_id: held.plan.plan_id, confirms: [] },
    })
  })
})

describe('Ctrl-C', { timeout: PATIENT }, () => {
  const HEARD = 'finishing what is in hand; Ctrl-C again ends it at once'

  const stopping = () => {
    const folder = tempFolder()
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      "export default { functions: { stop: () => { process.emit('SIGINT') } } }",
    )
    const later = { binding: { action_type: 'wait', params: { ms: 3_600_000 } }, after: ['stop'] }
    const flow = flowOf({ stop: {}, later })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    return { folder, plan_id: flow.plan.plan_id }
  }

  it('leaves a run, and tells a program which', async () => {
    const { folder, plan_id } = stopping()
    const left = await hereJson(folder, ['run', 'flow.json'])
    expect(left).toMatchObject({ code: 1, values: [{ status: 'left', plan_id }] })
  })

  const lastStep = () => {
    const { folder } = stopping()
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      "export default { functions: { stop: () => { process.emit('SIGINT'); return 'stopped' } } }",
    )
    writeFileSync(join(folder, 'last.yaml'), JSON.stringify({ title: 'Stop', steps: { stop: FUNCTION } }))
    return folder
  }
  const FUNCTION = { action_type: 'function', params: { name: 'stop' } }

  it('does not say that a run is left which what was in hand has brought to its end', async () => {
    const folder = lastStep()
    const ended = await mplpHere(folder, ['run', 'last.yaml'])
    expect({ ...ended, out: ended.out.split('\n').slice(1) }).toEqual({
      code: 0,
      out: ['completed', 'stop  stopped', ''],
      err: `mplp: ${HEARD}\n`,
    })
    const told = await hereJson(folder, ['run', 'last.yaml'])
    expect(told).toMatchObject({ code: 0, values: [{ status: 'completed', success: true }] })
  })

  it('does not say so of one that was being resumed either', async () => {
    const folder = lastStep()
    const { values } = await hereJson<Ran>(folder, ['run', 'last.yaml', '--detach'])
    const { plan_id } = values[0]!
    expect(await mplpHere(folder, ['resume'])).toEqual({
      code: 0,
      out: `${plan_id} completed\n1 taken up\n`,
      err: `mplp: ${HEARD}\n`,
    })
  })

  it('says of a run whose store forgets it that nobody goes on with it', async () => {
    const { folder } = stopping()
    expect(await mplpHere(folder, ['run', 'flow.json', '--store', 'memory:'])).toMatchObject({
      code: 1,
      err: `mplp: ${HEARD}\nmplp: left; nobody can go on with it: this store forgets the run when this process ends\n`,
    })
  })

  it('leaves a run that is being resumed, in one line and not with a stack', async () => {
    const { folder, plan_id } = stopping()
    await mplpHere(folder, ['run', 'flow.json', '--detach'])
    const left = await hereJson(folder, ['resume'])
    const warnings = [HEARD, 'left; `mplp resume` goes on with it'].map((message) => ({ warning: { message } }))
    expect([
      left.code,
      left.err
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ]).toEqual([1, warnings])
    expect(left.values).toEqual([{ resumed: [{ plan_id, status: 'left' }], waiting: [], left: [] }])
  })

  it('tells of every run that was being resumed what has become of it', async () => {
    const folder = tempFolder()
    const FIRST = '00000000-0000-4000-8000-000000000000' // the one that is looked at first
    const soon = flowOf({ hold: { binding: { action_type: 'wait', params: { ms: 0 } } } })
    const later = () => flowOf({ hold: { binding: { action_type: 'wait', params: { ms: 3_600_000 } } } })
    const flows = [{ ...soon, plan: { ...soon.plan, plan_id: FIRST } }, later(), later()]
    for (const [i, flow] of flows.entries()) {
      writeFileSync(join(folder, `${i}.json`), JSON.stringify(flow))
      await mplpHere(folder, ['run', `${i}.json`, '--detach'])
    }
    const { code, out } = await mplpHere(folder, ['resume'], `${FIRST} completed`)
    const others = flows.slice(1).map(({ plan: { plan_id } }) => `${plan_id} left`)
    expect({ code, out: out.trimEnd().split('\n') }).toEqual({
      code: 1,
      out: [`${FIRST} completed`, ...others.sort(), '3 taken up, 2 of them left'],
    })
  })

  it('before anything is resumed takes nothing up, and says that it was interrupted', async () => {
    const { folder, plan_id } = stopping()
    await mplpHere(folder, ['run', 'flow.json', '--detach'])
    writeFileSync(join(folder, 'slow.mjs'), "process.emit('SIGINT')\nexport default { functions: { stop: () => 1 } }")
    expect(await mplpHere(folder, ['resume', '--config', 'slow.mjs'])).toEqual({
      code: 1,
      out: '',
      err: `mplp: ${HEARD}\nmplp: interrupted\n`,
    })
    expect((await hereJson(folder, ['show', plan_id])).values).toMatchObject([{ steps: [{ status: 'pending' }, {}] }])
  })

  it('ends the waiting for a run that another process is to cancel', async () => {
    const folder = tempFolder()
    const held = flowOf({ hold: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    writeFileSync(join(folder, 'held.json'), JSON.stringify(held))
    await mplpHere(folder, ['run', 'held.json'])
    const store = await openStore(`sqlite:${join(folder, '.mplp/state.db')}`)
    onTestFinished(() => store.close())
    const { context_id } = held.plan
    await store.acquire(context_id, thisHolder('the other process'), PATIENT)
    let revision = 0
    for await (const entry of store.read(context_id)) revision = entry.revision
    const asked = (async () => {
      for await (const _ of store.read(context_id, { after: revision, follow: true })) return process.emit('SIGINT')
    })()
    const left = await mplpHere(folder, ['cancel', held.plan.plan_id])
    await asked
    expect(left).toEqual({
      code: 1,
      out: '',
      err: `mplp: ${HEARD}\nmplp: left; the run ends once its worker has heard of it\n`,
    })
  })
})

describe('a run that waits', { timeout: PATIENT }, () => {
  const waiting = (params: JsonObject) => flowOf({ hold: { binding: { action_type: 'wait', params } } })

  it('is listed with what it waits for, whatever that is', async () => {
    const folder = tempFolder()
    const flows = {
      signal: waiting({ signal: 'go' }),
      timer: waiting({ ms: 3_600_000 }),
      paused: waiting({ signal: 'on' }),
    }
    for (const [name, flow] of Object.entries(flows)) await left(folder, flow, name === 'paused' ? 'paused' : 'waiting')
    const { values } = await hereJson<{ plan_id: string }[]>(folder, ['list'])
    const of = (name: keyof typeof flows) => values[0]!.find(({ plan_id }) => plan_id === flows[name].plan.plan_id)
    expect(of('signal')).toMatchObject({ phase: 'waiting', title: 'A plan', waits_for: ['the signal go'] })
    expect(of('timer')).toMatchObject({ phase: 'waiting', waits_for: [expect.stringMatching(/^the time 2/)] })
    expect(of('paused')).toMatchObject({ phase: 'paused' })
    expect((await mplpHere(folder, ['list'])).out).toContain('for the signal go\n')
  })

  it('is listed with what it is to do once a worker comes', async () => {
    const folder = tempFolder()
    const [run_id, trace_id] = [systemClock.uuid(), systemClock.uuid()]
    const held = waiting({ signal: 'go' })
    const title = 'A plan\nof two lines'
    const flow = { ...held, plan: { ...held.plan, title }, chosen: { run: run_id, trace: trace_id } }
    const { plan_id, context_id } = flow.plan
    await left(folder, flow, 'waiting')
    await mplpHere(folder, ['pause', plan_id])
    const row = { run_id, plan_id, context_id, trace_id, title, waits_for: ['the signal go'] }
    expect((await hereJson(folder, ['list'])).values).toEqual([[{ ...row, phase: 'waiting', requested: 'pause' }]])
    const { out } = await mplpHere(folder, ['list'])
    expect(out).toBe(
      `waiting  plan ${plan_id}  context ${context_id}  A plan of two lines  for the signal go; is to pause\n`,
    )
    await mplpHere(folder, ['resume'])
    expect((await hereJson(folder, ['list'])).values).toEqual([[{ ...row, phase: 'paused' }]])
  })

  it('is named by its ids in what a program is told of each wish', async () => {
    const folder = tempFolder()
    const flow = { ...waiting({ signal: 'go' }), chosen: { run: systemClock.uuid() } }
    const { plan_id, context_id } = flow.plan
    await left(folder, flow, 'waiting')
    const ids = { run_id: flow.chosen.run, plan_id, context_id }
    const told = async (...words: string[]) => (await hereJson(folder, words)).values
    expect(await told('pause', plan_id)).toEqual([{ ...ids, requested: 'pause' }])
    expect(await told('signal', plan_id, 'go')).toEqual([{ ...ids, signal: 'go', payload: null }])
    expect(await told('cancel', plan_id)).toEqual([{ ...ids, status: 'cancelled' }])
  })

  it('is taken up when its time has come, and waited for when it has not', async () => {
    const folder = tempFolder()
    const flow = waiting({ ms: 1_700 }) // what waits for less than a round is not laid down
    await left(folder, flow, 'waiting')
    const resumed = await hereJson(folder, ['resume'])
    expect(resumed).toMatchObject({ code: 0, values: [{ resumed: [{ status: 'completed' }], waiting: [] }] })
  })

  it('says for what, and how it can be given', async () => {
    const folder = tempFolder()
    const flow = waiting({ signal: 'go' })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    const { code, out } = await mplpHere(folder, ['run', 'flow.json'])
    expect(code).toBe(2)
    expect(out).toContain(`waiting for the signal go: mplp signal ${flow.plan.plan_id} go\n`)
  })

  it('is named by a resume that cannot make it go on', async () => {
    const folder = tempFolder()
    const flow = waiting({ signal: 'go' })
    await left(folder, flow, 'waiting')
    expect(await hereJson(folder, ['resume'])).toMatchObject({
      code: 0,
      values: [{ resumed: [], waiting: [flow.plan.plan_id] }],
    })
    expect((await mplpHere(folder, ['resume'])).out).toBe('nothing to take up; 1 waiting for somebody: mplp list\n')
  })

  /** Leaves a run once it waits, or is paused. */
  async function left(folder: string, flow: Flow, phase: 'waiting' | 'paused'): Promise<void> {
    const runtime = await openRuntime({ vsl: `sqlite:${join(folder, '.mplp/state.db')}` })
    const run = await runtime.submit(flow)
    if (phase === 'paused') await runtime.pause(run.run_id)
    for await (const { body } of runtime.store.read(run.context_id, { follow: true }))
      if ((body as { reason?: string }).reason === `the run is ${phase}`) break
    await runtime.close()
  }
})

describe('a store that forgets', { timeout: PATIENT }, () => {
  it('is nothing to detach a run into, and says so of one that waits', async () => {
    const folder = withFlow({ reason: 'really?' })
    const detached = await mplpHere(folder, ['run', 'flow.json', '--detach', '--store', 'memory:'])
    expect(detached).toMatchObject({ code: 64, out: '' })
    expect(oneLine(detached)).toBe('mplp: run is not valid: --detach needs a store that outlives this process')
    const waits = await mplpHere(folder, ['run', 'flow.json', '--store', 'memory:'])
    const forgets = 'nobody can make it go on: this store forgets the run when this process ends'
    const lasting = 'a store that lasts can wait, as --store sqlite:./.mplp/state.db'
    expect({ code: waits.code, said: oneLine(waits) }).toEqual({
      code: 2,
      said: `mplp: ${forgets}; --approve <role> answers at once, and ${lasting}`,
    })
    expect(waits.out).toMatch(/\nwaiting for the decision \S+ {3}really\?\n$/) // no command that could not work
    const ofRoles = await mplpHere(withFlow({ roles: ['dba'] }), ['run', 'flow.json', '--store', 'memory:'])
    expect(oneLine(ofRoles)).toContain('; --approve dba answers at once')
  })
})

describe('a process without the functions of a run', { timeout: PATIENT }, () => {
  it('takes in what people decide, and leaves every step to those who have them', async () => {
    const { folder, elsewhere } = withFunctions()
    const greet = (name: string, more = {}) => {
      const flow = flowOf({ greet: {} }, more)
      writeFileSync(join(folder, name), JSON.stringify(flow))
      return flow.plan.plan_id
    }
    const status = async (plan: string) => (await hereJson<Ran>(folder, ['show', plan])).values[0]!.status
    const asks = greet('asks.json', { approval: { roles: ['dba'] } })
    const left = greet('left.json')
    const { values } = await hereJson<Ran>(folder, ['run', 'asks.json'])
    expect(await mplpHere(folder, ['run', 'left.json', '--detach'])).toMatchObject({ code: 0 })
    const approved = await elsewhere('confirm', 'approve', values[0]!.confirms[0]!, '--role', 'dba')
    expect(approved).toMatchObject({ code: 0, err: '' })
    for (const verb of [['pause'], ['signal', 'go'], ['cancel'], ['resume']] as const) {
      const held = flowOf({ hold: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
      writeFileSync(join(folder, 'held.json'), JSON.stringify(held))
      await mplpHere(folder, ['run', 'held.json'])
      expect(await elsewhere(verb[0], held.plan.plan_id, ...verb.slice(1))).toMatchObject({ err: '' })
      expect([verb[0], await status(asks), await status(left)]).toEqual([verb[0], 'approved', 'in_progress'])
    }
    const lacks = await elsewhere('resume', '--json')
    expect(lacks.code).toBe(1)
    expect(JSON.parse(lacks.out)).toMatchObject({ left: [{}, {}] })
    const message = `${left} is left to others: there is no adapter for actions of type function`
    expect(lacks.err).toContain(`${JSON.stringify({ warning: { message } })}\n`)
    expect(await elsewhere('resume', left)).toMatchObject({ code: 1, out: 'nothing to take up\n' })
    expect([await status(asks), await status(left)]).toEqual(['approved', 'in_progress'])
    expect(await mplpHere(folder, ['resume'])).toMatchObject({ code: 0, err: '' })
    expect([await status(asks), await status(left)]).toEqual(['completed', 'completed'])
  })
})

describe('what another process has open', { timeout: PATIENT }, () => {
  /** A project with a run that asks, in whose config everything but the store cannot be opened. */
  async function asking(config: object) {
    const folder = withFlow({ reason: 'really?' })
    const { values } = await hereJson<Ran>(folder, ['run', 'flow.json'])
    writeFileSync(join(folder, 'mplp.config.json'), JSON.stringify(config))
    return { folder, plan: values[0]!.plan_id, confirm: values[0]!.confirms[0]! }
  }

  it('does not stand in the way of a bus that is served: who stays tells what others commit', async () => {
    const port = await takenPort()
    const { folder, plan, confirm } = await asking({ bus: [`ws://127.0.0.1:${port}`] })
    expect(await mplpHere(folder, ['confirm', 'approve', confirm])).toMatchObject({ code: 0, err: '' })
    expect(await mplpHere(folder, ['resume'])).toMatchObject({ code: 0, err: '' })
    expect(await mplpHere(folder, ['rollback', plan])).toMatchObject({ code: 0, err: '' })
    expect(oneLine(await mplpHere(folder, ['serve', '--port', '0']))).toContain(`port ${port} of 127.0.0.1 is taken`)
  })

  it('is not needed to ask and to answer: tools, folder and buses are the worker’s', async () => {
    const bus = ['redis://127.0.0.1:1']
    const { folder, plan, confirm } = await asking({ mcp: { gone: { command: 'false' } }, root: './gone', bus })
    const flow = flowOf({ rest: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    for (const words of [
      ['confirm', 'list'],
      ['confirm', 'approve', confirm],
      ['pause', plan],
      ['run', 'flow.json', '--detach'],
      ['signal', flow.plan.plan_id, 'go'],
    ])
      expect(await mplpHere(folder, words)).toMatchObject({ code: 0, err: '' })
    expect((await mplpHere(folder, ['resume'])).code).toBe(64)
  })

  async function takenPort(): Promise<number> {
    const other = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void other.close())
    await once(other, 'listening')
    return (other.address() as AddressInfo).port
  }
})

describe('files that begin with a byte order mark', { timeout: PATIENT }, () => {
  it.each(['flow.json', 'flow.yaml'])('are read like any other: %s', async (name) => {
    const folder = tempFolder()
    const flow = JSON.stringify(flowOf({ rest: { binding: { action_type: 'wait', params: { ms: 1 } } } }))
    writeFileSync(join(folder, 'mplp.config.json'), '\uFEFF{ "vsl": "memory:" }')
    writeFileSync(join(folder, name), `\uFEFF${flow}`)
    expect(await mplpHere(folder, ['run', name])).toMatchObject({ code: 0, err: '' })
  })
})

describe('files that are not UTF-8', () => {
  it.each([
    ['flow.json', Buffer.from('\uFEFF{}', 'utf16le')],
    ['flow.yaml', Buffer.from('title: M\xfcller', 'latin1')],
    ['flow.mjs', Buffer.from('export default { title: "M\xfcller" }', 'latin1')],
  ])('are refused, and not read with other letters: %s', async (name, bytes) => {
    const folder = tempFolder()
    writeFileSync(join(folder, name), bytes)
    const refused = await mplpHere(folder, ['run', name])
    expect(refused).toMatchObject({ code: 64, out: '' })
    expect(oneLine(refused)).toBe(`mplp: ${join(folder, name)} is not valid: it is not UTF-8; save it so`)
  })
})

describe('a flow in YAML', { timeout: PATIENT }, () => {
  it('has the names that it is written with: 1.10 and 1.1, yes and 1e3 are four', async () => {
    const folder = tempFolder()
    const rest = '{ action_type: wait, params: { ms: 1 } }'
    const steps = ['1.10', '1.1', 'yes', '1e3'].map((name) => `  ${name}: ${rest}\n`)
    writeFileSync(join(folder, 'flow.yaml'), `title: names\nsteps:\n${steps.join('')}`)
    const ran = await hereJson<{ steps: object }>(folder, ['run', 'flow.yaml', '--store', 'memory:'])
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(Object.keys(ran.values[0]!.steps).sort()).toEqual(['1.1', '1.10', '1e3', 'yes'])
  })

  it.each([
    [
      'a tag that nobody knows',
      'title: !env TITLE\nsteps: {}\n',
      'title cannot be understood at line 1, column 8: the tag !env is not known; write the value without it, and put it in quotes if it is to begin with !',
    ],
    [
      'a name that is a list',
      'title: x\nsteps: { [a, b]: {} }\n',
      'steps cannot be understood at line 2, column 10: a name is a list, a map or has a tag; a name is text, so put it in quotes',
    ],
    [
      'a list without an end',
      '[',
      'it cannot be understood at line 1, column 2: a list is begun and not ended; end it with ], and begin each line of it further to the right than the name before it',
    ],
  ])('is refused for %s, in one line', async (_, text, says) => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'flow.yaml'), text)
    const refused = await mplp(folder, ['run', 'flow.yaml']) // a process of its own: what Node warns of is on its stderr
    expect(refused).toMatchObject({ code: 64, out: '' })
    expect(oneLine(refused)).toBe(`mplp: ${join(folder, 'flow.yaml')} is not valid: ${says}`)
  })
})

describe('a plan that fails', { timeout: PATIENT }, () => {
  it('ends with 1 and says what failed', async () => {
    const folder = withFlow('auto', 'no-such-file.txt')
    const failed = await mplpHere(folder, ['run', 'flow.json'])
    expect(failed.code).toBe(1)
    expect(failed.out).toMatch(/^failed: the step “read”: .*no-such-file/m)
  })
})

describe('whoever reads', { timeout: PATIENT }, () => {
  it('may go away: a run goes on to its end, and says how it ended', async () => {
    const folder = tempFolder()
    const file = (path: string) => ({ action_type: 'file_operation', params: { operation: 'read', path } })
    const slow = { binding: { action_type: 'wait', params: { ms: 300 } } }
    const flow = flowOf({ slow, read: { binding: file('absent.txt'), after: ['slow'] } })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    expect(await mplpUnread(folder, ['run', 'flow.json', '--events'])).toBe(1)
    expect((await hereJson(folder, ['show', flow.plan.plan_id])).values).toMatchObject([{ status: 'failed' }])
    expect(await mplpUnread(folder, ['events'])).toBe(0)
  })

  it('may close its ears: what was to be complained of is lost, and nothing else', async () => {
    const folder = tempFolder()
    const flow = flowOf({ asks: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    const ended = await mplpUnheard(folder, ['run', 'flow.json', '--store', 'memory:', '--json'])
    expect({ ...ended, out: JSON.parse(ended.out) }).toMatchObject({ code: 2, out: { status: 'waiting' } })
    expect(await mplpUnheard(folder, ['nonsense'])).toEqual({ code: 64, out: '' })
  })

  it('is told in one line that not all could be written, and that this is no success', async () => {
    const err = 'mplp: not all of the output could be written (EBADF)\n'
    expect(await mplpUnwritten(tempFolder(), ['version'])).toEqual({ code: 1, err })
  })
})

describe('the environment', { timeout: PATIENT }, () => {
  it('refuses an unknown MPLP_ variable by its name', async () => {
    const refused = await mplp(tempFolder(), ['list'], { MPLP_VLS: 'memory:' })
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toBe('mplp: environment is not valid: MPLP_VLS is not known; did you mean MPLP_VSL?')
  })

  it('names the variable that is no JSON as it is called', async () => {
    const refused = await mplp(tempFolder(), ['list'], { MPLP_RUN: '{' })
    expect(refused.code).toBe(64)
    expect(oneLine(refused)).toBe('mplp: environment is not valid: MPLP_RUN must be JSON')
  })
})

describe('the rest', { timeout: PATIENT }, () => {
  it('prints the config in force and covers its secrets', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'mplp.config.json'), '{ "vsl": "postgres://me:hunter2@db/x", "patrol_ms": 50 }')
    const secret = { MPLP_ENCRYPTION_KEY: `hunter3${'x'.repeat(36)}=` }
    const printed = await mplp(folder, ['config', 'print', '--json'], secret)
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
    const wrong = await mplp(folder, ['show', plan_id], { MPLP_ENCRYPTION_KEY: Buffer.alloc(32, 8).toString('base64') })
    expect(oneLine(wrong)).toMatch(/^mplp: MPLP_ENCRYPTION_KEY, or encryption_key in the config, is not the key/)
  })

  it('changes keys: the first seals, all open, and a copy needs the new one only', async () => {
    const folder = withFlow('auto')
    const [old, young] = [7, 8].map((byte) => Buffer.alloc(32, byte).toString('base64'))
    const with_ = (...keys: readonly (string | undefined)[]) => ({ MPLP_ENCRYPTION_KEY: keys.join(',') })
    const { plan_id } = JSON.parse((await mplp(folder, ['run', 'flow.json', '--json'], with_(old))).out) as Ran
    const shown = async (keys: { readonly [name: string]: string }, ...more: readonly string[]) =>
      mplp(folder, ['show', plan_id, '--json', ...more], keys)
    expect(JSON.parse((await shown(with_(young, old))).out)).toMatchObject({ plan_id, status: 'completed' })
    expect(oneLine(await shown(with_(old)))).toContain('all of them, the newest first')
    expect(oneLine(await shown(with_(young)))).toContain('all of them, the newest first')
    expect(await mplp(folder, ['store', 'copy', 'sqlite:./new.db'], with_(young, old))).toMatchObject({ code: 0 })
    expect(await mplp(folder, ['store', 'verify', '--store', 'sqlite:./new.db'], with_(young))).toMatchObject({
      code: 0,
    })
    const copied = await shown(with_(young), '--store', 'sqlite:./new.db')
    expect(JSON.parse(copied.out)).toMatchObject({ plan_id, status: 'completed' })
  })

  it('says which protocol and profiles it keeps', async () => {
    expect((await mplpJson(tempFolder(), ['version'])).values).toMatchObject([
      { runtime_name: 'mplp-runtime', supported_protocol_versions: ['1.0.0'] },
    ])
  })

  it.each([[['--version', '--json']], [['--json', '-V']]])('says so as one JSON text with %j too', async (words) => {
    const folder = tempFolder()
    const { out } = await mplp(folder, ['version', '--json'])
    expect(await mplp(folder, words)).toMatchObject({ code: 0, out, err: '' })
  })

  it.each([
    [['help', 'nope'], "mplp: unknown command 'nope'; mplp --help shows all"],
    [['store', 'elsewhere'], "mplp: unknown command 'elsewhere'; mplp store --help shows all"],
    [['help', 'store', 'verfy'], "mplp: unknown command 'verfy' (Did you mean verify?)"],
  ])('does not help with %j, which is no verb', async (words, says) => {
    const refused = await mplpHere(tempFolder(), words)
    expect(refused).toMatchObject({ code: 64, out: '' })
    expect(oneLine(refused)).toBe(says)
  })

  it('keeps the columns of a table apart, however wide its characters are', () => {
    const rows = ['ab', '計画', 'ｶﾅ', 'e\u0301e', '😀'].map((cell) => [cell, '|'])
    expect(table(rows).split('\n')).toEqual(['ab    |', '計画  |', 'ｶﾅ    |', 'e\u0301e    |', '😀    |'])
  })

  it('keeps the columns of all other rows where one cell is very long', () => {
    const long = 'x'.repeat(200)
    const rows = [
      ['a', 'revision 1', 'now'],
      [long, 'revision 10', 'now'],
    ]
    expect(table(rows).split('\n')).toEqual(['a  revision 1   now', `${long}  revision 10  now`])
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

/** A folder whose config has a function, and the command line on its store from a folder whose config has none. */
function withFunctions() {
  const [folder, other] = [tempFolder(), tempFolder()]
  writeFileSync(join(folder, 'mplp.config.mjs'), "export default { functions: { greet: () => 'hello' } }")
  const store = ['--store', `sqlite:${join(folder, '.mplp/state.db')}`]
  return { folder, elsewhere: (...args: readonly string[]) => mplpHere(other, [...args, ...store]) }
}
