import { randomBytes } from 'node:crypto'
import { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import Database from 'libsql'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { FunctionSpec } from '../../src/ael/function.ts'
import { openRuntime } from '../../src/compose.ts'
import { exportPack } from '../../src/golden/pack.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput, Refused, RuleViolation, Unavailable } from '../../src/protocol/errors.ts'
import { type JsonObject, uuidOf } from '../../src/protocol/json.ts'
import type { Context } from '../../src/protocol/types.ts'
import { firstActionOf } from '../../src/psg/first-action.ts'
import { move } from '../../src/psg/moves.ts'
import { type ServeOptions, serve } from '../../src/server/server.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { add, by, file } from '../psg/given.ts'
import { flowOf } from '../support/flows.ts'
import { door } from '../support/on-a-clock.ts'
import { freePort } from '../support/private-server.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { serving, sse, status, type Told, told } from './serving.ts'

describe('the protocol’s paths', () => {
  it('find a context, a plan and a run that have one id, each where it is asked for', async () => {
    const { ask, url, runtime } = await serving()
    const id = systemClock.uuid()
    const { context, plan, bindings } = flowOf({ greet: {} })
    const flow = {
      context: { ...(context as Context), context_id: id },
      plan: { ...plan, plan_id: id, context_id: id },
      bindings: bindings!,
      chosen: { run: id, trace: id },
    }
    await (await runtime.submit(flow)).result()
    expect(await ask('GET', `/runs/${id}`)).toMatchObject({ status: 200, body: { run_id: id } })
    expect(await ask('GET', `/psg/plans/${id}`)).toMatchObject({ status: 200, body: { plan_id: id } })
    expect((await told(`${url}/events?follow=false&plan=${id}`)).length).toBeGreaterThan(0)
    await expect(runtime.call('plan', { intent: 'cancel', plan_id: id })).rejects.toThrow(RuleViolation)
    expect(await exportPack(runtime.project, id, tempFolder())).toMatchObject({ root: expect.any(String) })
  })

  it('tell the events of a plan by the id of its run too', async () => {
    const { url, runtime } = await serving()
    const run = await runtime.submit(flowOf({ greet: {} }))
    await run.result()
    const of = (id: string) => told(`${url}/events?follow=false&plan=${id}`)
    expect(await of(run.run_id)).toEqual(await of(run.plan_id))
  })

  it('keep a context and a plan, and move the plan where its lifecycle lets it go', async () => {
    const { ask } = await serving()
    const { context, plan } = flowOf({ one: {} })
    expect(await ask('POST', '/psg/contexts', context)).toMatchObject({ status: 201, body: context })
    expect(await ask('POST', '/psg/plans', plan)).toMatchObject({ status: 201, body: { plan_id: plan.plan_id } })
    expect(await ask('GET', '/psg/contexts')).toMatchObject({ body: { contexts: [plan.context_id] } })
    expect(await ask('GET', `/psg/contexts/${plan.context_id}`)).toMatchObject({ status: 200, body: context })
    expect(await ask('GET', `/objects/${firstActionOf(plan.steps[0]!.step_id)}`)).toMatchObject({ status: 404 }) // not begun
    const moved = await ask('PATCH', `/psg/plans/${plan.plan_id}/status`, { status: 'proposed' })
    expect(moved).toMatchObject({ status: 200, body: { status: 'proposed' } })
    const skipped = await ask('PATCH', `/psg/plans/${plan.plan_id}/status`, { status: 'completed' })
    expect(skipped).toMatchObject({ status: 409, body: { code: 'rule_violation', violations: [{}] } })
    expect(await ask('GET', `/psg/plans/${plan.plan_id}`)).toMatchObject({ body: { status: 'proposed' } })
    expect(await ask('DELETE', `/psg/plans/${plan.plan_id}`)).toMatchObject({ status: 409 })
  })

  it('keep a plan that runs when it is submitted as a run', async () => {
    const { ask } = await serving()
    const { context, plan, bindings } = flowOf({ greet: {} })
    await ask('POST', '/psg/contexts', context)
    await ask('POST', '/psg/plans', plan)
    expect(await ask('POST', '/runs', { context: plan.context_id, plan, bindings })).toMatchObject({ status: 202 })
    const run = await ask('GET', `/runs/${plan.plan_id}?wait_ms=10000`)
    expect(run).toMatchObject({ body: { phase: 'ended', result: { success: true } } })
  })

  it('give a plan that has ended without bringing all of its run into memory', async () => {
    const store = memoryBackend()
    const before = await openRuntime({ functions: { greet: () => 'hello' } }, { store })
    const { plan, ...flow } = flowOf({ greet: {} })
    await (await before.submit({ plan, ...flow })).result()
    await before.close()
    const { ask, runtime } = await serving({}, {}, { store })
    const found = await ask('GET', `/psg/plans/${plan.plan_id}`)
    expect(found).toMatchObject({ body: { status: 'completed', steps: [{ status: 'completed' }] } })
    const graph = await runtime.project.context(plan.context_id)
    expect(graph.state.hasGroup(plan.plan_id)).toBe(false)
    expect(await ask('GET', '/psg/plans/nothing')).toMatchObject({ status: 404, body: { code: 'not_found' } })
    expect(await ask('GET', `/psg/plans/${plan.steps[0]!.step_id}`)).toMatchObject({ status: 404 })
  })

  it('put a plan up again that was changed only with a binding for what is new', async () => {
    const { ask, runtime } = await serving()
    const flow = flowOf({ one: {} }, { approval: { needed: 2, roles: ['ann', 'ben'] } })
    expect(await ask('POST', '/runs', flow)).toMatchObject({ status: 202 })
    const { plan_id } = flow.plan
    const { confirms } = (await ask('GET', '/confirms')).body as Questions
    const { confirm } = confirms[0]!
    const say = (status: string, role: string) =>
      ask('POST', `/confirms/${confirm.confirm_id}/decisions`, { status, decided_by_role: role })
    await say('rejected', 'ann')
    await runtime.call('plan', { intent: 'add_step', plan_id, description: 'nobody can' })
    const put = () => ask('PATCH', `/psg/plans/${plan_id}/status`, { status: 'proposed' })
    expect(await put()).toMatchObject({ status: 400, body: { code: 'invalid_input' } })
    const { steps } = (await ask('GET', `/psg/plans/${plan_id}`)).body as unknown as typeof flow.plan
    await runtime.call('plan', { intent: 'remove_step', plan_id, step_id: steps[1]!.step_id })
    expect(await put()).toMatchObject({ status: 200, body: { status: 'proposed' } })
    expect(await say('approved', 'cy')).toMatchObject({ status: 409 })
    expect(await say('approved', 'ann')).toMatchObject({ body: { status: 'pending' } })
  })

  it('tell what another process has written since', async () => {
    const vsl = `sqlite:${join(tempFolder(), 'state.db')}`
    const [one, other] = [await serving({}, { vsl }), await serving({}, { vsl })]
    const { context, plan } = flowOf({ one: {} })
    const { context_id } = plan
    await one.ask('POST', '/psg/contexts', context)
    await one.ask('POST', '/psg/plans', plan)
    await other.ask('PATCH', `/psg/plans/${plan.plan_id}/status`, { status: 'cancelled' })
    expect(await one.ask('GET', `/psg/plans/${plan.plan_id}`)).toMatchObject({ body: { status: 'cancelled' } })
    await other.ask('POST', `/psg/contexts/${context_id}/snapshots`, { name: 'before' })
    expect(await one.ask('GET', `/psg/contexts/${context_id}/snapshots`)).toMatchObject({ body: [{ name: 'before' }] })
    await (await other.runtime.project.context(context_id)).commit([move('context', context_id, 'archived')], by)
    expect(await one.ask('GET', `/psg/contexts/${context_id}`)).toMatchObject({ body: { status: 'archived' } })
  })

  it('pages through contexts', async () => {
    const { ask } = await serving()
    for (let i = 0; i < 3; i++) await ask('POST', '/psg/contexts', flowOf({ one: {} }).context)
    const first = await ask('GET', '/psg/contexts?limit=2')
    const { contexts, next } = first.body as { contexts: string[]; next: string }
    const rest = await ask('GET', `/psg/contexts?after=${next}`)
    expect(rest.body).toEqual({ contexts: [expect.any(String)] })
    expect(new Set([...contexts, ...(rest.body as { contexts: string[] }).contexts]).size).toBe(3)
  })

  it('snapshot a context and say what a restore would do', async () => {
    const { ask } = await serving()
    const { context, plan } = flowOf({ one: {} })
    await ask('POST', '/psg/contexts', context)
    const at = `/psg/contexts/${plan.context_id}`
    expect(await ask('POST', `${at}/snapshots`, { name: 'before' })).toMatchObject({ status: 201 })
    await ask('POST', '/psg/plans', plan)
    await ask('POST', `${at}/snapshots`, { name: 'after' })
    expect(await ask('GET', `${at}/snapshots`)).toMatchObject({ body: [{ name: 'before' }, { name: 'after' }] })
    const dry = await ask('POST', `${at}/restore`, { to: 'before', dry_run: true })
    expect((dry.body as { changes: unknown[] }).changes.length).toBeGreaterThan(0)
    expect(await ask('GET', `/psg/plans/${plan.plan_id}`)).toMatchObject({ status: 200 })
    expect(await ask('POST', `${at}/restore`, { to: 'before' })).toMatchObject({ status: 200 })
    expect(await ask('GET', `/psg/plans/${plan.plan_id}`)).toMatchObject({ status: 404 })
  })

  it('restore what one run did, by any of its names, and know when there is no such run', async () => {
    const { ask, runtime } = await serving()
    const flow = flowOf({ one: {} })
    const { run_id, plan_id, context_id, trace_id, ...run } = await runtime.submit(flow)
    await run.result()
    const graph = await runtime.project.context(context_id)
    const { revision: to } = graph
    await graph.commit([add('file', 'a.ts', file('a.ts', 1))], { ...by, run: run_id })
    const restore = (of: string) => ask('POST', `/psg/contexts/${context_id}/restore`, { to, of, dry_run: true })
    const first = await restore(run_id)
    expect(first).toMatchObject({ status: 200, body: { changes: [{ kind: 'node_delete', node: 'file' }] } })
    for (const name of [plan_id, trace_id]) expect((await restore(name)).body).toEqual(first.body)
    expect(await restore('absent')).toMatchObject({ status: 404, body: { detail: 'there is no run absent' } })
  })
})

describe('runs', () => {
  it('go from a flow to a result, and can be asked why', async () => {
    const { ask } = await serving()
    const flow = flowOf({ greet: {} })
    const submitted = await ask('POST', '/runs', flow)
    expect(submitted).toMatchObject({ status: 202, body: { plan_id: flow.plan.plan_id } })
    const { run_id } = submitted.body as { run_id: string }
    expect(submitted.headers.get('location')).toBe(`/runs/${run_id}`)
    const ended = await ask('GET', `/runs/${run_id}?wait_ms=20000`)
    expect(ended).toMatchObject({
      body: { phase: 'ended', result: { status: 'completed', outputs: { [flow.ids.greet!]: 'hello' } } },
    })
    expect(ended.headers.get('cache-control')).toBe('no-store')
    expect(await ask('GET', `/objects/${flow.ids.greet}`)).toMatchObject({ body: { status: 'completed' } })
    const action = firstActionOf(flow.ids.greet!)
    expect(await ask('GET', `/objects/${action}`)).toMatchObject({ body: { action_id: action, status: 'completed' } })
    expect(await ask('GET', `/objects/${flow.ids.greet}/why`)).toMatchObject({ status: 200 })
    expect((await ask('GET', `/objects/${flow.ids.greet}/history`)).body).toHaveLength(3)
  })

  it('that failed say why, and so do their steps', async () => {
    const { ask, runtime } = await serving()
    const flow = flowOf({ boom: {} })
    await (await runtime.submit(flow)).result()
    const { body } = await ask('GET', `/objects/${flow.ids.boom}/why`)
    const failed = (body as { kind: string; error?: unknown }[]).filter(({ error }) => error !== undefined)
    expect(failed.map(({ kind }) => kind)).toEqual(['plan', 'step'])
  })

  it('begin with a flow in short, and tell the ids of its steps', async () => {
    const { ask } = await serving()
    const greet = { action_type: 'function', params: { name: 'greet' } }
    const submitted = await ask('POST', '/runs', { title: 'Greet', steps: { greet } })
    const { run_id, steps } = submitted.body as { run_id: string; steps: { greet: string } }
    expect(submitted).toMatchObject({ status: 202, body: { steps: { greet: expect.any(String) } } })
    expect(await ask('GET', `/runs/${run_id}?wait_ms=20000`)).toMatchObject({
      body: { result: { outputs: { [steps.greet]: 'hello' } } },
    })
    expect(
      await ask('POST', '/runs', { title: 'Greet', steps: { greet: { dependencies: ['gret'], ...greet } } }),
    ).toMatchObject({
      status: 400,
      body: { problems: [{ path: 'steps.greet.dependencies[0]', rule: 'reference.resolves' }] },
    })
    expect(await ask('POST', '/runs')).toMatchObject({ status: 400 })
  })

  it('are submitted once under a chosen id: the same flow again, or another one, is a conflict that changes nothing', async () => {
    const { ask, runtime } = await serving()
    const chosen = { run: crypto.randomUUID() }
    const flow = flowOf({ greet: {} }, { chosen })
    expect(await ask('POST', '/runs', flow)).toMatchObject({ status: 202, body: { run_id: chosen.run } })
    const { body: ended } = await ask('GET', `/runs/${chosen.run}?wait_ms=20000`)
    const others = [
      flow,
      flowOf({ one: {} }, { chosen }),
      { ...flowOf({ one: {} }, { chosen }), approval: { needed: 1 } },
    ]
    for (const other of others) {
      const refused = await ask('POST', '/runs', other)
      expect(refused).toMatchObject({ status: 409, body: { code: 'rule_violation' } })
      const { violations } = refused.body as { violations: { rule: string; node: string }[] }
      expect(violations).toContainEqual(expect.objectContaining({ rule: 'id.unique', node: `run/${chosen.run}` }))
    }
    expect(await ask('GET', `/runs/${chosen.run}`)).toMatchObject({ body: ended })
    expect(await runtime.project.locate(others[1]!.plan.plan_id)).toBeUndefined()
  })

  it('go on where they have failed, once, for whoever may submit', async () => {
    let isBroken = true
    const calls: string[] = []
    const functions = {
      one: () => calls.push('one'),
      two: () => (isBroken ? Promise.reject(new Error('broken')) : calls.push('two')),
    }
    const tokens = (['read', 'run'] as const).map((role) => ({
      token: `a-token-that-may-${role}-and-more`,
      roles: [role],
    }))
    const { ask } = await serving({ tokens }, { functions })
    const as = (role: string) => ({ authorization: `Bearer a-token-that-may-${role}-and-more` })
    const flow = flowOf({ one: {}, two: { after: ['one'] } })
    const { run_id } = (await ask('POST', '/runs', flow, as('run'))).body as { run_id: string }
    await ask('GET', `/runs/${run_id}?wait_ms=20000`, undefined, as('run'))
    isBroken = false
    expect((await ask('POST', `/runs/${run_id}/rerun`, {}, as('read'))).status).toBe(403)
    expect(await ask('POST', `/runs/${run_id}/rerun`, { options: { concurrency: 0 } }, as('run'))).toMatchObject({
      status: 400,
      body: { problems: [{ path: 'options.concurrency' }] },
    })
    const asked = await ask('POST', `/runs/${run_id}/rerun`, { reason: 'it is mended' }, as('run'))
    expect(asked).toMatchObject({ status: 202, body: { rerun_of: run_id } })
    const location = asked.headers.get('location')!
    expect(await ask('GET', `${location}?wait_ms=20000`, undefined, as('run'))).toMatchObject({
      body: { rerun_of: run_id, result: { status: 'completed' } },
    })
    const { runs } = (await ask('GET', '/runs?phase=ended', undefined, as('run'))).body as {
      runs: { run_id: string }[]
    }
    expect(runs).toMatchObject([
      { rerun_of: run_id, status: 'completed' },
      { run_id, status: 'failed' },
    ])
    expect(runs[1]).not.toHaveProperty('rerun_of')
    const again = await ask('POST', `/runs/${flow.plan.plan_id}/rerun`, undefined, as('run'))
    expect(again.headers.get('location')).toBe(location)
    expect(calls).toEqual(['one', 'two'])
    expect((await ask('POST', `${location}/rerun`, {}, as('run'))).body).toMatchObject({ code: 'refused' })
  })

  it('wait for a decision, of a role that may', async () => {
    const { ask } = await serving()
    const flow = flowOf({ greet: {} }, { approval: { roles: ['dba'], reason: 'touches the database' } })
    const { run_id } = (await ask('POST', '/runs', flow)).body as { run_id: string }
    const { confirms } = (await ask('GET', '/confirms')).body as Questions
    const decisions = `/confirms/${confirms[0]!.confirm.confirm_id}/decisions`
    const intern = await ask('POST', decisions, { status: 'approved', decided_by_role: 'intern' })
    expect(intern).toMatchObject({ status: 409, body: { code: 'rule_violation' } })
    const maybe = await ask('POST', decisions, { status: 'maybe', decided_by_role: 'dba' })
    expect(maybe).toMatchObject({ status: 400, body: { problems: [{ path: 'status', rule: 'enum' }] } })
    const named = await ask('POST', decisions, { status: 'approved', decided_by_role: 'dba', decision_id: 'mine' })
    expect(named).toMatchObject({ status: 400, body: { problems: [{ path: 'decision_id', rule: 'pattern' }] } })
    const approved = await ask('POST', decisions, { status: 'approved', decided_by_role: 'dba' })
    expect(approved).toMatchObject({ status: 200, body: { status: 'approved' } })
    expect(await ask('GET', `/runs/${run_id}?wait_ms=20000`)).toMatchObject({
      body: { result: { status: 'completed' } },
    })
  })

  it('ask their questions page by page, and go on behind one that was answered since', async () => {
    const { ask, runtime } = await serving()
    const ids = Array.from({ length: 5 }, () => systemClock.uuid()).sort()
    for (const confirm of ids) await runtime.submit(flowOf({ greet: {} }, { approval: {}, chosen: { confirm } }))
    const page = async (query: string) => {
      const { confirms, next } = (await ask('GET', `/confirms${query}`)).body as Questions
      return { ids: confirms.map(({ confirm }) => confirm.confirm_id), next }
    }
    expect(await page('')).toEqual({ ids })
    expect(await page('?limit=2')).toEqual({ ids: ids.slice(0, 2), next: ids[1] })
    await runtime.decide(ids[1]!, { status: 'rejected', decided_by_role: 'dba' })
    expect(await page(`?limit=2&after=${ids[1]}`)).toEqual({ ids: ids.slice(2, 4), next: ids[3] })
    expect(await page(`?limit=2&after=${ids[3]}`)).toEqual({ ids: ids.slice(4) })
    expect(await page('?limit=2')).toEqual({ ids: [ids[0], ids[2]], next: ids[2] })
  })

  it('say what the process lacks that they wait for', async () => {
    const store = memoryBackend()
    const desk = await openRuntime({}, { store, mine: new Set() })
    onTestFinished(() => desk.close())
    const flow = flowOf({ mail: {} })
    const { plan_id } = await desk.submit(flow)
    const runtime = await openRuntime({ functions: { other: () => null } }, { store, onError: () => undefined })
    onTestFinished(() => runtime.close())
    const server = await serve(runtime, { port: 0 })
    onTestFinished(() => server.close())
    const lacking = { step_id: flow.ids.mail, what: 'function', name: 'mail' }
    const one = await (await fetch(`${server.url}/runs/${plan_id}`)).json()
    expect(one).toMatchObject({ phase: 'running', lacking })
    expect(await (await fetch(`${server.url}/runs`)).json()).toEqual({ runs: [one] })
  })

  it('say whose child they are, and which they have, while they go on and once they have ended', async () => {
    const [begun, over] = [door(), door()]
    const slow = async () => {
      begun.open()
      await over.opened
    }
    const id = uuidOf('a child')
    const parent: FunctionSpec = async (_args, { child }) =>
      (await child(flowOf({ slow: {} }, { chosen: { run: id } }))).status
    const { ask } = await serving({}, { functions: { slow, parent } })
    const flow = flowOf({ parent: {} })
    const { run_id } = (await ask('POST', '/runs', flow)).body as { run_id: string }
    await begun.opened
    const whose = { run_id, step_id: flow.ids.parent, action_id: firstActionOf(flow.ids.parent!) }
    expect(await ask('GET', `/runs/${id}`)).toMatchObject({ body: { phase: 'running', parent: whose } })
    expect((await ask('GET', `/runs/${id}`)).body).not.toHaveProperty('children')
    expect(await ask('GET', `/runs/${run_id}`)).toMatchObject({ body: { phase: 'running', children: [id] } })
    expect((await ask('GET', `/runs/${run_id}`)).body).not.toHaveProperty('parent')
    for (const run of ((await ask('GET', '/runs')).body as { runs: object[] }).runs)
      expect(run).not.toHaveProperty('children')
    over.open()
    expect(await ask('GET', `/runs/${id}?wait_ms=20000`)).toMatchObject({ body: { phase: 'ended', parent: whose } })
    const { runs: all } = (await ask('GET', '/runs?phase=ended')).body as { runs: { run_id: string }[] }
    expect(all.find((run) => run.run_id === id)).toMatchObject({ parent: whose })
    const ended = await ask('GET', `/runs/${run_id}?wait_ms=20000`)
    expect(ended).toMatchObject({ body: { phase: 'ended', children: [id] } })
  })

  it('say what a child of theirs waits for, when that is all there is to it', async () => {
    const id = uuidOf('a child')
    const asking = flowOf({ noop: { binding: { approval: 'ask' } } }, { chosen: { run: id } })
    const parent: FunctionSpec = async (_args, { child }) => (await child(asking)).status
    const { ask } = await serving({}, { functions: { noop: () => null, parent } })
    const { run_id } = (await ask('POST', '/runs', flowOf({ parent: {} }))).body as { run_id: string }
    const { body } = await ask('GET', `/runs/${run_id}?wait_ms=20000`)
    const { confirms } = (await ask('GET', '/confirms')).body as { confirms: { confirm: { confirm_id: string } }[] }
    const { confirm_id } = confirms[0]!.confirm
    const told = { run_id, phase: 'running', waits_for: [`the child ${id}: the decision ${confirm_id}`] }
    expect(body).toMatchObject(told)
    expect(await ask('GET', '/runs?phase=running')).toMatchObject({ body: { runs: [told] } })
    await ask('POST', `/confirms/${confirm_id}/decisions`, { status: 'approved', decided_by_role: 'lead' })
    expect(await ask('GET', `/runs/${run_id}?wait_ms=20000`)).toMatchObject({ body: { phase: 'ended' } })
  })

  it('say which of their steps wait for a place in the process, and so does the way to such a step', async () => {
    const [begun, over] = [door(), door()]
    const slow = async () => {
      begun.open()
      await over.opened
    }
    const { ask } = await serving({}, { functions: { slow }, actions: { at_once: { function: 1 } } })
    const flow = flowOf({ one: { call: 'slow' }, two: { call: 'slow' }, three: { call: 'slow', after: ['two'] } })
    const { run_id } = (await ask('POST', '/runs', flow)).body as { run_id: string }
    await begun.opened
    const without_place = [{ step_id: flow.ids.two, action_type: 'function' }]
    expect(await ask('GET', `/runs/${run_id}`)).toMatchObject({ body: { phase: 'running', without_place } })
    const why = async (step: string) => (await ask('GET', `/objects/${flow.ids[step]}/why`)).body as object[]
    expect((await why('two')).at(-1)).toMatchObject({ kind: 'step', status: 'pending', without_place: 'function' })
    for (const step of ['one', 'three']) expect((await why(step)).at(-1)).not.toHaveProperty('without_place')
    over.open()
    const ended = await ask('GET', `/runs/${run_id}?wait_ms=20000`)
    expect(ended).toMatchObject({ body: { result: { status: 'completed' } } })
    expect(ended.body).not.toHaveProperty('without_place')
  })

  it('take a signal, are paused, go on and are cancelled', async () => {
    const { ask } = await serving()
    const binding = { action_type: 'wait', params: { signal: 'go' } } as const
    const flow = flowOf({ wait: { binding }, again: { binding, after: ['wait'] } })
    const { run_id } = (await ask('POST', '/runs', flow)).body as { run_id: string }
    const at = `/runs/${run_id}`
    expect(await ask('POST', `${at}/pause`)).toMatchObject({ status: 202 })
    expect(await ask('POST', `${at}/resume`)).toMatchObject({ status: 202 })
    expect(await ask('POST', `${at}/signal`, { payload: 1 })).toMatchObject({ status: 400 })
    expect(await ask('POST', `${at}/signal`, { name: 'go', payload: 1 })).toMatchObject({ status: 202 })
    expect(await ask('POST', `${at}/cancel`)).toMatchObject({ status: 202 })
    expect(await ask('GET', `${at}?wait_ms=20000`)).toMatchObject({ body: { result: { status: 'cancelled' } } })
    for (const wish of ['pause', 'resume'])
      expect(await ask('POST', `${at}/${wish}`)).toMatchObject({
        status: 400,
        body: { problems: [{ path: 'run', rule: 'ended' }] },
      })
    expect(await ask('POST', `${at}/cancel`)).toMatchObject({ status: 202 }) // it has what it asks for
  })

  it('are told what to do by clients that name the kind of a body and send none', async () => {
    const { ask, url } = await serving()
    const flow = flowOf({ wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    await ask('POST', '/runs', flow)
    const bare = { method: 'POST', headers: { 'content-type': 'application/json' } }
    const tell = async (wish: string) => (await fetch(`${url}/runs/${flow.plan.plan_id}/${wish}`, bare)).status
    expect([await tell('pause'), await tell('resume'), await tell('signal'), await tell('cancel')]).toEqual([
      202, 202, 400, 202,
    ])
  })

  it.each([0, false, '', undefined])('hand on what a signal brings as it is: %o', async (payload) => {
    const { ask } = await serving()
    const flow = flowOf({ wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    await ask('POST', '/runs', flow)
    await ask('POST', `/runs/${flow.plan.plan_id}/signal`, { name: 'go', payload })
    const { body } = await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)
    expect(body).toMatchObject({ result: { outputs: { [flow.ids.wait!]: payload ?? null } } })
  })

  it('say what they are called, what they wait for and what they are to do, alone and in the list, as mplp list does', async () => {
    const { ask, runtime } = await serving()
    const binding = { action_type: 'wait', params: { signal: 'go' } } as const
    const [asks, waits] = [flowOf({ greet: {} }, { approval: { reason: 'really?' } }), flowOf({ wait: { binding } })]
    for (const flow of [asks, waits]) await (await runtime.submit(flow)).rest()
    const [question] = await runtime.waiting()
    const one = async ({ plan: { plan_id } }: Flow) =>
      (await ask('GET', `/runs/${plan_id}?wait_ms=20000`)).body as JsonObject
    const title = 'A plan'
    const decision = `the decision ${question!.confirm.confirm_id}`
    expect(await one(asks)).toMatchObject({ title, phase: 'waiting', waits_for: [decision] })
    expect(await one(waits)).toMatchObject({ title, phase: 'waiting', waits_for: ['the signal go'] })
    const listed = (await ask('GET', '/runs')).body as { readonly runs: readonly JsonObject[] }
    expect(listed.runs).toEqual(expect.arrayContaining([await one(asks), await one(waits)]))

    const held = flowOf({ wait: { binding }, greet: { after: ['wait'] } })
    await (await runtime.submit(held)).rest()
    const { context_id } = held.plan
    await runtime.call('context', { intent: 'suspend', context_id })
    await runtime.signal(held.plan.plan_id, 'go')
    const inactive = `the context ${context_id}, which is suspended, to be active`
    expect(await one(held)).toMatchObject({ title, phase: 'running', waits_for: [inactive] })

    const desk = await openRuntime({ vsl: 'memory:' }, { mine: new Set() }) // nobody hears the wish
    onTestFinished(() => desk.close())
    const late = flowOf({ greet: {} })
    await desk.submit(late)
    const server = await serve(desk, { port: 0 })
    onTestFinished(() => server.close())
    const { plan_id } = late.plan
    const paused = await fetch(`${server.url}/runs/${plan_id}/pause`, { method: 'POST' })
    expect(await paused.json()).toMatchObject({ title, phase: 'running', requested: 'pause' })
  })

  it('are listed until they have ended: those that wait and are paused too, by phase and page by page', async () => {
    const { ask, runtime } = await serving()
    const binding = { action_type: 'wait', params: { signal: 'go' } } as const
    const [ended, asks, waits, paused] = [
      flowOf({ greet: {} }),
      flowOf({ greet: {} }, { approval: { reason: 'really?' } }),
      flowOf({ wait: { binding } }),
      flowOf({ wait: { binding } }),
    ]
    const unsubmitted = flowOf({ one: {} })
    await ask('POST', '/psg/contexts', unsubmitted.context)
    await ask('POST', '/psg/plans', unsubmitted.plan)
    for (const flow of [ended, asks, waits, paused]) {
      const run = await runtime.submit(flow)
      if (flow === paused) await runtime.pause(run.run_id)
      await run.rest()
    }
    const listed = async (query: string) => {
      const { runs, next } = (await ask('GET', `/runs${query}`)).body as Page
      return { plans: runs.map(({ plan_id }) => plan_id), next }
    }
    const ids = [asks, waits, paused].map(({ plan }) => plan.plan_id).sort()
    expect(await listed('')).toEqual({ plans: ids })
    expect(await listed('?phase=paused')).toEqual({ plans: [paused.plan.plan_id] })
    expect(await listed('?phase=waiting')).toEqual({ plans: ids.filter((id) => id !== paused.plan.plan_id) })
    expect(await listed('?phase=running')).toEqual({ plans: [] })
    expect(await listed('?limit=2')).toEqual({ plans: ids.slice(0, 2), next: ids[1] })
    expect(await listed(`?limit=2&after=${ids[1]}`)).toEqual({ plans: ids.slice(2) })
    expect(await listed('?phase=ended')).toEqual({ plans: [ended.plan.plan_id] })
  })

  it('that have ended are listed to the end, also if the last one of a page is removed before the next', async () => {
    const { ask, runtime } = await serving()
    for (const step of ['greet', 'one']) await (await runtime.submit(flowOf({ [step]: {} }))).result()
    const { next } = (await ask('GET', '/runs?phase=ended&limit=1')).body as Page
    const before = new Date(systemClock.now() + 60_000).toISOString()
    await expect.poll(async () => (await runtime.trim({ before })).behind).toEqual([]) // the server's own listeners are told first
    expect(await ask('GET', `/runs?phase=ended&after=${next}`)).toMatchObject({ status: 200, body: { runs: [] } })
    for (const absent of ['absent', 'a/b'])
      expect((await ask('GET', `/runs?phase=ended&after=${absent}`)).status).toBe(404)
  })

  it('that have ended are listed too, the last one first, by status and page by page', async () => {
    const { ask, runtime } = await serving()
    const binding = { action_type: 'wait', params: { signal: 'go' } } as const
    const flows = [flowOf({ wait: { binding } }), flowOf({ greet: {} }), flowOf({ one: {} })]
    const runs = []
    for (const flow of flows) runs.push(await runtime.submit(flow))
    const [waits, greets, counts] = runs as [RunHandle, RunHandle, RunHandle]
    for (const run of [greets, counts]) await run.result()
    await waits.cancel() // the first submitted ends last
    await waits.result()
    const listed = async (query: string) => {
      const { runs, next } = (await ask('GET', `/runs?phase=ended${query}`)).body as Page
      return { plans: runs.map(({ plan_id }) => plan_id), next }
    }

    expect((await listed('')).plans[0]).toBe(waits.plan_id)
    expect((await listed('')).plans.toSorted()).toEqual(runs.map(({ plan_id }) => plan_id).sort())
    const { plans: first, next } = await listed('&limit=2')
    const { plans: second, next: end } = await listed(`&limit=2&after=${next}`)
    expect([...first, ...second]).toEqual((await listed('')).plans)
    expect(end).toBe(undefined)
    expect(await listed(`&after=${waits.plan_id}&limit=1`)).toMatchObject({ plans: [first[1]] })
    expect(await listed('&status=cancelled')).toEqual({ plans: [waits.plan_id] })
    expect(await listed('&status=failed')).toEqual({ plans: [] })
    expect(await ask('GET', '/runs?phase=ended&limit=1')).toMatchObject({
      body: {
        runs: [
          {
            run_id: waits.run_id,
            context_id: waits.context_id,
            trace_id: waits.trace_id,
            phase: 'ended',
            status: 'cancelled',
            title: flows[0]!.plan.title,
            ended_at: expect.stringMatching(/Z$/),
            error: { code: expect.any(String) },
          },
        ],
      },
    })
  })

  it('are not listed by what means nothing', async () => {
    const { ask, runtime } = await serving()
    const { run_id } = await runtime.submit(flowOf({ greet: {} }, { approval: { reason: 'really?' } }))
    const problem = async (query: string) => (await ask('GET', `/runs?${query}`)).body
    expect(await problem('status=failed')).toMatchObject({ problems: [{ path: 'status', rule: 'ended' }] })
    expect(await problem('phase=ended&status=running')).toMatchObject({ problems: [{ path: 'status', rule: 'enum' }] })
    expect(await problem(`phase=ended&after=${run_id}`)).toMatchObject({ problems: [{ path: 'after', rule: 'ended' }] })
    expect(await problem('phase=ended&after=nothing')).toMatchObject({ code: 'not_found' })
  })
})

interface Questions {
  readonly confirms: { readonly confirm: { readonly confirm_id: string } }[]
  readonly next?: string
}

interface Page {
  readonly runs: { readonly plan_id: string }[]
  readonly next?: string
}

describe('events', () => {
  it('are told oldest first, live, and after the last one seen', async () => {
    const { ask, url } = await serving()
    const flow = flowOf({ greet: {} })
    const stop = new AbortController()
    const live = sse(await fetch(`${url}/events?family=pipeline_stage`, { signal: stop.signal }))
    await ask('POST', '/runs', flow)
    const seen: Told[] = []
    for await (const told of live) {
      seen.push(told)
      if (told.data.event.event_type && JSON.stringify(told.data.event).includes('"to_status":"completed"')) break
    }
    stop.abort()
    await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)
    const all = await told(`${url}/events?follow=false`)
    const place = all.find(({ id }) => id !== undefined)!.id!
    const rest = await told(`${url}/events?follow=false`, { 'last-event-id': place })
    const from = all.findIndex(({ id }) => id === place) + 1
    expect(rest.map(({ data }) => data.event.event_id)).toEqual(all.slice(from).map(({ data }) => data.event.event_id))
    const end = all.findLast(({ id }) => id !== undefined)!.id!
    expect(await told(`${url}/events?follow=false&after=${place}`, { 'last-event-id': end })).toEqual([]) // as a browser comes back
    expect(all.map(({ data }) => data.event.event_id)).toEqual(
      expect.arrayContaining(seen.map(({ data }) => data.event.event_id)),
    )
  })

  it('refuse a place that the store never gave', async () => {
    const { url } = await serving()
    const refused = await fetch(`${url}/events`, { headers: { 'last-event-id': 'nonsense' } })
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ code: 'invalid_input' })
  })

  it('refuse a place that the store has not come to, as after an older backup was put back', async () => {
    const [ahead, behind] = [await serving(), await serving()]
    for (const flow of [flowOf({ greet: {} }), flowOf({ greet: {} })]) await (await ahead.runtime.submit(flow)).result()
    await (await behind.runtime.submit(flowOf({ greet: {} }))).result()
    const { id } = (await told(`${ahead.url}/events?follow=false`)).at(-1)!
    const refused = await fetch(`${behind.url}/events`, { headers: { 'last-event-id': id! } })
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ problems: [{ path: 'after', rule: 'position', found: id }] })
  })

  it('are those of the store as it is now, also where it was set back and others stand in their places', async () => {
    const [before, after] = [await serving(), await serving()]
    for (const { runtime } of [before, after]) await (await runtime.submit(flowOf({ greet: {} }))).result()
    let { store } = before.runtime
    const feed: Backend['feed'] = (from) => store.feed(from)
    const server = await serve({ ...before.runtime, store: { ...store, feed } }, { port: 0 })
    onTestFinished(() => server.close())
    const all = ({ url }: { readonly url: string }) => told(`${url}/events?follow=false`)
    expect(await all(server)).toEqual(await all(before))
    store = after.runtime.store
    expect(await all(server)).toEqual(await all(after))
  })

  it('end with what broke them, of which the owner hears all and a stranger little', async () => {
    const { runtime } = await serving()
    const failure = new Error('a secret')
    const feed: Backend['feed'] = async function* (from) {
      if (from?.follow === false) throw failure
      yield* runtime.store.feed(from)
    }
    const heard: unknown[] = []
    const onError = (error: unknown) => heard.push(error)
    const server = await serve({ ...runtime, store: { ...runtime.store, feed } }, { port: 0, onError })
    onTestFinished(() => server.close())
    const text = await (await fetch(`${server.url}/events?follow=false`)).text()
    expect(text).toMatch(/^event: error\ndata: \{.*"code":"internal"\}\n\n$/)
    expect(heard).toEqual([failure])
  })

  it.each(['/events?follow=false', '/psg/contexts', '/metrics'])(
    'and whatever else fails keep to themselves what broke it, also where that has a status of its own: %s',
    async (path) => {
      const { runtime } = await serving()
      const failure = Object.assign(new Error('a secret'), { statusCode: 404 }) // as clients of stores over HTTP throw it
      const feed: Backend['feed'] = async function* (from) {
        if (from?.follow === false) throw failure
        yield* runtime.store.feed(from)
      }
      const scan: Backend['scan'] = async function* (prefix, from) {
        if (prefix === 'id/context/' || prefix === 'running/') throw failure
        yield* runtime.store.scan(prefix, from)
      }
      const heard: unknown[] = []
      const onError = (error: unknown) => heard.push(error)
      const server = await serve({ ...runtime, store: { ...runtime.store, feed, scan } }, { port: 0, onError })
      onTestFinished(() => server.close())
      const text = await (await fetch(`${server.url}${path}`)).text()
      expect(text).toContain('"status":500,"code":"internal"}')
      expect(heard).toEqual([failure])
    },
  )

  it('end with a store that is away, of which the client is told and the owner hears from the runtime', async () => {
    const { runtime } = await serving()
    const away = new Unavailable('the store', 'it is away')
    const feed: Backend['feed'] = async function* (from) {
      if (from?.follow === false) throw away
      yield* runtime.store.feed(from)
    }
    const head: Backend['head'] = async (stream) => {
      if (stream === 'project') throw away // who is ready asks for it, and nobody else here
      return runtime.store.head(stream)
    }
    const heard: unknown[] = []
    const onError = (error: unknown) => heard.push(error)
    const server = await serve({ ...runtime, store: { ...runtime.store, feed, head } }, { port: 0, onError })
    onTestFinished(() => server.close())
    expect((await fetch(`${server.url}/ready`)).status).toBe(503)
    expect(await (await fetch(`${server.url}/events?follow=false`)).text()).toContain('"code":"unavailable"')
    expect(heard).toEqual([])
  })

  it('are read no faster than the client reads them, for whom no signs of life pile up either', async () => {
    const { sleep } = systemClock
    const soon = vi
      .spyOn(systemClock, 'sleep')
      .mockImplementation((ms, signal) => sleep(ms === 15_000 ? 0 : ms, signal))
    const write = vi.spyOn(ServerResponse.prototype, 'write')
    onTestFinished(() => [soon, write].forEach((spy) => void spy.mockRestore()))
    const { runtime } = await serving()
    await (await runtime.submit(flowOf({ greet: {} }))).result()
    let read = 0
    const feed: Backend['feed'] = async function* (from) {
      for await (const entry of runtime.store.feed(from)) for (yield entry; from?.follow === false; read++) yield entry // without end
    }
    const server = await serve({ ...runtime, store: { ...runtime.store, feed } }, { port: 0 })
    onTestFinished(() => server.close())
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1').pause()
    onTestFinished(() => void socket.destroy())
    socket.write('GET /events?follow=false HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    await vi.waitFor(async () => {
      const before = { read, written: write.mock.calls.length }
      const beaten = soon.mock.calls.length
      await vi.waitFor(() => expect(soon.mock.calls.length).toBeGreaterThan(beaten + 10))
      expect({ read, written: write.mock.calls.length }).toEqual(before)
      expect(read).toBeGreaterThan(0)
    }, 5_000)
  })

  it('are read no more for somebody who has gone', async () => {
    const { runtime } = await serving()
    const following: (AbortSignal | undefined)[] = [] // somebody, and who tells those with a WebSocket
    const feed: Backend['feed'] = (from) => {
      if (from?.follow) following.push(from.signal)
      return runtime.store.feed(from)
    }
    const server = await serve({ ...runtime, store: { ...runtime.store, feed } }, { port: 0 })
    onTestFinished(() => server.close())
    await (await runtime.submit(flowOf({ greet: {} }))).result()
    const gone = new AbortController()
    const heard = sse(await fetch(`${server.url}/events`, { signal: gone.signal }))
    await heard.next()
    expect(following.some((signal) => signal?.aborted)).toBe(false)
    gone.abort()
    await expect.poll(() => following.some((signal) => signal?.aborted)).toBe(true)
  })

  it('leave nothing on what lives as long as the server, as who waits for a run does not: every source of AbortSignal.any keeps something', async () => {
    const any = vi.spyOn(AbortSignal, 'any')
    onTestFinished(() => any.mockRestore())
    const { ask, url, runtime } = await serving()
    const run = await runtime.submit(flowOf({ greet: {} }))
    await run.result()
    for (let i = 0; i < 2; i++) {
      await told(`${url}/events?follow=false`)
      expect(await ask('GET', `/runs/${run.run_id}?wait_ms=0`)).toMatchObject({ status: 200 })
      expect(await ask('GET', '/runs?phase=ended')).toMatchObject({ status: 200 })
    }
    const sources = any.mock.calls.flatMap(([signals]) => [...signals])
    expect(new Set(sources).size).toBe(sources.length)
  })

  it('end when the server closes', async () => {
    const { url, server } = await serving()
    const response = await fetch(`${url}/events`)
    await server.close()
    expect(await response.text()).toBe('')
  })

  it('come in from tools, files, git and CI, checked', async () => {
    const { ask, url } = await serving()
    const { context, plan } = flowOf({ one: {} })
    await ask('POST', '/psg/contexts', context)
    const event = {
      event_id: plan.plan_id,
      file_path: 'a.txt',
      change_type: 'modified',
      timestamp: '2026-01-01T00:00:00Z',
    }
    const sent = { context_id: plan.context_id, kind: 'file-update-event', event }
    expect(await ask('POST', '/integration/events', { ...sent, event: { file_path: 7 } })).toMatchObject({
      status: 400,
    })
    expect(await ask('POST', '/integration/events', { ...sent, kind: 'rumour' })).toMatchObject({ status: 400 })
    const { event_id: _, ...bare } = event
    const whole = { ...sent, event: bare, source: 'an-editor' }
    expect(await ask('POST', '/integration/events', whole)).toMatchObject({ status: 202 })
    const all = await told(`${url}/events?follow=false&family=external_integration`)
    expect(all.map(({ data }) => data.event)).toMatchObject([{ event_type: 'file_update', source: 'an-editor' }])
  })
})

describe('bad input', () => {
  it.each([
    ['malformed JSON', '{"plan":', 'application/json', 400, 'invalid_input'],
    ['an empty body', '', 'application/json', 400, 'invalid_input'],
    ['a number', '7', 'application/json', 400, 'invalid_input'],
    ['null', 'null', 'application/json', 400, 'invalid_input'],
    ['wrong types', '{"context":7,"plan":[]}', 'application/json', 400, 'invalid_input'],
    ['a prototype in disguise', '{"__proto__":{"plan":1}}', 'application/json', 400, 'invalid_input'],
    ['a form', 'a=b', 'application/x-www-form-urlencoded', 415, 'invalid_input'],
    ['plain text, which any page may send', '{}', 'text/plain', 415, 'invalid_input'],
  ])('gets a problem document: %s', async (_, body, type, status, code) => {
    const { url, ask } = await serving()
    const response = await fetch(`${url}/runs`, { method: 'POST', body, headers: { 'content-type': type } })
    expect(response.headers.get('content-type')).toContain('application/problem+json')
    expect({ status: response.status, body: await response.json() }).toMatchObject({ status, body: { status, code } })
    expect(await ask('GET', '/psg/contexts')).toMatchObject({ body: { contexts: [] } })
  })

  it.each([
    [
      'text in another encoding',
      Buffer.from('{"context":"M\xfcller"}', 'latin1'),
      {},
      400,
      'body is not valid: it is not UTF-8',
    ],
    [
      'names that objects have',
      Buffer.from('{"context":{"constructor":{"prototype":1}}}'),
      {},
      400,
      'body is not valid: it has a member called __proto__, or constructor with a prototype: rename it',
    ],
    [
      'the name that no object shows',
      Buffer.from('{"context":{"__proto__":1}}'),
      {},
      400,
      'body is not valid: it has a member called __proto__, or constructor with a prototype: rename it',
    ],
    [
      'a packed body',
      gzipSync('{}'),
      { 'content-encoding': 'gzip' },
      415,
      'bodies in gzip are not read: send it as it is',
    ],
  ])('is refused before anything is made of it: %s', async (_, body, coding, status, detail) => {
    const { url } = await serving()
    const headers = { 'content-type': 'application/json', ...coding }
    const response = await fetch(`${url}/runs`, { method: 'POST', body, headers })
    expect({ status: response.status, body: await response.json() }).toMatchObject({ status, body: { status, detail } })
  })

  it.each([
    ['GET', '/runs/'],
    ['GET', '/objects//why'],
    ['POST', '/runs//cancel'],
  ])('says of %s %s that there is no such path', async (method, path) => {
    const { ask } = await serving()
    expect(await ask(method, path)).toMatchObject({
      status: 404,
      body: { detail: `there is no path ${method} ${path}` },
    })
  })

  it.each([
    ['DELETE', '/runs', 'POST, GET, HEAD'],
    ['DELETE', '/runs?x=1', 'POST, GET, HEAD'],
    ['PUT', '/psg/plans/absent?x=1', 'GET, HEAD, DELETE'],
    ['POST', '/events', 'GET'],
    ['HEAD', '/events', 'GET'],
    ['GET', '/runs/absent/cancel', 'POST'],
    ['OPTIONS', '/openapi.json', 'GET, HEAD'],
  ])('says of %s %s with which methods the path can be asked', async (method, path, allow) => {
    const { ask } = await serving()
    const { status, headers, body } = await ask(method, path)
    expect({ status, allow: headers.get('allow') }).toEqual({ status: 405, allow })
    if (method !== 'HEAD')
      expect(body).toMatchObject({
        status: 405,
        code: 'invalid_input',
        detail: `${path} takes ${allow}, and not ${method}`,
      })
  })

  it.each([
    ['/psg/plans/absent', 404],
    ['/openapi-json', 404],
    ['/psg/contexts/..%2f..%2fetc%2fpasswd', 400],
    ['/runs/%00', 400],
    ['/runs/absent', 404],
    ['/objects/absent', 404],
    ['/nowhere', 404],
    ['/psg/contexts?limit=-1', 400],
    ['/psg/contexts?limit=0', 400],
    ['/runs?limit=-1', 400],
    ['/runs?limit=0', 400],
    ['/runs?phase=ended&limit=0', 400],
    ['/runs?limit=', 400],
    ['/runs?limit=1e2', 400],
    ['/confirms?limit=-1', 400],
    ['/confirms?limit=0', 400],
    ['/confirms?limit=1001', 400],
    ['/confirms?after=', 400],
    ['/runs?after=', 400],
    ['/runs?phase=ended&after=', 400],
    ['/psg/contexts?after=', 400],
    ['/runs?phase=over', 400],
    ['/events?follow=no', 400],
    ['/events?follow=false&plan=absent', 404],
    ['/runs/%', 400],
  ])('does not find %s', async (path, status) => {
    const { ask } = await serving()
    expect(await ask('GET', path)).toMatchObject({ status, body: { status } })
  })

  it('refuses an address that is too long, without repeating all of it', async () => {
    const { ask } = await serving()
    const answer = await ask('GET', `/psg/plans/${'a'.repeat(5_000)}`)
    expect(answer).toMatchObject({ status: 414, body: { code: 'too_large' } })
    expect(JSON.stringify(answer.body).length).toBeLessThan(600)
  })

  it('refuses options that do not fit, and a port in use, before anything listens', async () => {
    const { runtime, url } = await serving()
    await expect(serve(runtime, { port: 70_000 })).rejects.toThrow(InvalidInput)
    await expect(serve(runtime, { host: '0.0.0.0', port: 0 })).rejects.toThrow(Refused)
    for (const token of ['short', 'a token that has spaces', 'schlüssel-schlüssel'])
      await expect(serve(runtime, { port: 0, tokens: [{ token, roles: ['read'] }] })).rejects.toThrow(InvalidInput)
    await expect(serve(runtime, { port: Number(new URL(url).port) })).rejects.toThrow(Refused)
  })

  it('tells nobody what happens once it was refused its port', async () => {
    const { runtime, url } = await serving()
    const following: (AbortSignal | undefined)[] = []
    const feed: Backend['feed'] = (from) => {
      if (from?.follow) following.push(from.signal)
      return runtime.store.feed(from)
    }
    const other = { ...runtime, store: { ...runtime.store, feed } }
    await expect(serve(other, { port: Number(new URL(url).port) })).rejects.toThrow(Refused)
    const sound = await serve(other, { port: 0 })
    await expect.poll(() => following.some((signal) => !signal?.aborted)).toBe(true)
    await sound.close()
    expect(following.filter((signal) => !signal?.aborted)).toEqual([])
  })

  it('says so when it is a bus of the runtime itself that has the port', async () => {
    const port = await freePort()
    const runtime = await openRuntime({ vsl: 'memory:', bus: ['memory:', `ws://localhost:${port}`] })
    onTestFinished(() => runtime.close())
    const refused = await serve(runtime, { host: 'localhost', port }).catch((error) => error)
    expect(refused).toBeInstanceOf(Refused)
    expect(refused.message).toContain(`bus[1] is to be served on port ${port} of localhost, the server's own`)
  })
})

describe('the door', () => {
  const READ = 'a-token-that-may-read'
  const DECIDE = 'a-token-that-may-decide'
  const ADMIN = 'a-token-that-may-everything'
  const tokens: ServeOptions['tokens'] = [
    { token: READ, roles: ['read'] },
    { token: DECIDE, roles: ['decide'] },
    { token: ADMIN, roles: ['admin'] },
  ]
  const { context } = flowOf({ one: {} })

  it.each([
    ['no token', undefined, 401],
    ['a forged token', 'Bearer a-token-that-may-reaD', 401],
    ['the start of a token', `Bearer ${READ.slice(0, -1)}`, 401],
    ['another scheme', `Basic ${ADMIN}`, 401],
    ['a token that may only read', `Bearer ${READ}`, 403],
    ['a token that may only decide', `Bearer ${DECIDE}`, 403],
    ['a token that may', `Bearer ${ADMIN}`, 201],
    ['a scheme in small letters', `bearer ${ADMIN}`, 201],
  ])('judges a write with %s', async (_, authorization, status) => {
    const { ask } = await serving({ tokens })
    const answer = await ask('POST', '/psg/contexts', context, authorization ? { authorization } : {})
    expect(answer.status).toBe(status)
    if (status === 401) expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  })

  it('lets every token read, and nobody else', async () => {
    const { ask } = await serving({ tokens })
    for (const token of [READ, DECIDE, ADMIN])
      expect((await ask('GET', '/confirms', undefined, { authorization: `Bearer ${token}` })).status).toBe(200)
    expect((await ask('GET', '/confirms')).status).toBe(401)
    expect((await ask('GET', '/events')).status).toBe(401)
    expect((await ask('GET', '/health')).status).toBe(200)
  })

  it('keeps out web pages, and names that were pointed at this machine', async () => {
    const { ask, url } = await serving()
    expect((await ask('POST', '/psg/contexts', context, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await ask('GET', '/nowhere', undefined, { origin: 'https://evil.example' })).status).toBe(403)
    expect(await status(`${url}/confirms`, { host: 'evil.example' })).toBe(403)
    expect(await status(`${url}/confirms`, { host: new URL(url).host })).toBe(200)
    const host = `LocalHost:${new URL(url).port}` // names have no case
    expect(await status(`${url}/confirms`, { host, origin: `http://localhost:${new URL(url).port}` })).toBe(200)
  })
})

describe('for those who watch', () => {
  it('a store that takes no more is told once, until it takes something again', async () => {
    const store = memoryBackend()
    const full = new Unavailable('the store', 'there is no room for more')
    let isFull = false
    const commit: Backend['commit'] = async (write) => {
      if (isFull && !write.stream.startsWith('relay/')) throw full // a bus tells of itself
      return store.commit(write)
    }
    const heard: unknown[] = []
    const onError = (error: unknown) => heard.push(error)
    const { ask } = await serving({ onError }, {}, { store: { ...store, commit }, onError })
    const submitted = async () => (await ask('POST', '/runs', flowOf({ greet: {} }))).status
    isFull = true
    expect([await submitted(), (await ask('GET', '/confirms')).status, await submitted()]).toEqual([503, 200, 503])
    expect(heard).toEqual([full])
    isFull = false
    const flow = flowOf({ greet: {} })
    expect((await ask('POST', '/runs', flow)).status).toBe(202)
    await ask('GET', `/runs/${flow.plan.plan_id}?wait_ms=20000`)
    isFull = true
    expect(await submitted()).toBe(503)
    isFull = false
    expect(heard).toEqual([full, full])
  })

  it('is not ready while the store answers and takes nothing that is written', async () => {
    const store = memoryBackend()
    let isFull = false
    const written: string[] = []
    const unlessFull = () => {
      if (isFull) throw new Unavailable('the store', 'there is no room for more')
    }
    const commit: Backend['commit'] = async (write) => {
      unlessFull()
      await store.commit(write)
    }
    const set: Backend['set'] = async (key, value) => {
      unlessFull()
      written.push(key)
      await store.set(key, value)
    }
    const { ask } = await serving({}, {}, { store: { ...store, commit, set }, onError: () => undefined })
    const ready = async () => (await ask('GET', '/ready')).status
    isFull = true
    expect(await ready()).toBe(200) // nobody has written yet, and looking writes nothing
    expect((await ask('POST', '/runs', flowOf({ greet: {} }))).status).toBe(503)
    expect(await ask('GET', '/ready')).toMatchObject({
      status: 503,
      body: { detail: expect.stringContaining('there is no room') },
    })
    expect([await ready(), (await ask('GET', '/confirms')).status]).toEqual([503, 200])
    isFull = false
    expect([await ready(), await ready(), written.length]).toEqual([200, 200, 1])
    expect(await store.get(written[0]!)).toBeUndefined()
  })

  it('counts what was asked', async () => {
    const { ask, url, runtime } = await serving({}, { bus: ['memory:'] })
    await ask('GET', '/psg/plans/absent')
    await ask('POST', '/psg/contexts', flowOf({ one: {} }).context)
    await runtime.flush()
    expect(await ask('GET', '/ready')).toMatchObject({ status: 200, body: { status: 'ready' } })
    const text = await (await fetch(`${url}/metrics`)).text()
    expect(text).toContain('mplp_http_requests_total{method="GET",route="/psg/plans/:id",status="404"} 1')
    expect(text).toContain('\nmplp_runs_running 0\n')
    expect(text).toContain('\nmplp_bus_behind_seconds{bus="memory"} 0\n')
    expect(text).toContain('\nmplp_store_up 1\n')
  })

  it('tells in seconds how far a bus is behind', async () => {
    const { runtime } = await serving()
    const behindMs = async () => new Map([['redis', 1_500]])
    const server = await serve({ ...runtime, behindMs }, { port: 0 })
    onTestFinished(() => server.close())
    expect(await (await fetch(`${server.url}/metrics`)).text()).toContain(
      '\nmplp_bus_behind_seconds{bus="redis"} 1.5\n',
    )
  })

  it.each(['head', 'scan'] as const)(
    'tells what it has counted while the store is away, and that it is: %s',
    async (call) => {
      const { runtime } = await serving()
      let isAway = false
      const unlessAway = () => {
        if (isAway) throw new Unavailable('the store', 'it is away')
      }
      const head: Backend['head'] = async (stream) => {
        if (call === 'head' && stream === 'project') unlessAway()
        return runtime.store.head(stream)
      }
      const scan: Backend['scan'] = async function* (prefix, from) {
        if (call === 'scan') unlessAway()
        yield* runtime.store.scan(prefix, from)
      }
      const server = await serve({ ...runtime, store: { ...runtime.store, head, scan } }, { port: 0 })
      onTestFinished(() => server.close())
      await fetch(`${server.url}/psg/plans/absent`)
      isAway = true
      const response = await fetch(`${server.url}/metrics`)
      const text = await response.text()
      expect(response.status).toBe(200)
      expect(text).toContain('mplp_http_requests_total{method="GET",route="/psg/plans/:id",status="404"} 1')
      expect(text).toContain('\nmplp_store_up 0\n')
      expect(text).not.toContain('mplp_runs_running')
    },
  )

  it('is not ready, and says why, once a newer version has brought the store to another layout', async () => {
    const path = join(tempFolder(), 'state.db')
    const { ask, url } = await serving({}, { vsl: `sqlite:${path}` })
    expect((await ask('GET', '/ready')).status).toBe(200)
    const newer = new Database(path)
    newer.exec('PRAGMA user_version = 7')
    newer.close()
    expect(await ask('GET', '/ready')).toMatchObject({
      status: 503,
      body: { code: 'unavailable', detail: expect.stringContaining('start it again with that version') },
    })
    expect(await ask('POST', '/runs', flowOf({ greet: {} }))).toMatchObject({
      status: 503,
      body: { code: 'unavailable', detail: expect.stringContaining('start it again with that version') },
    })
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('\nmplp_store_up 0\n')
  })

  it('counts also what is sealed with a key that only others have yet', async () => {
    const inner = memoryBackend()
    const old = { id: '2025', key: randomBytes(32) }
    const young = { id: '2026', key: randomBytes(32) }
    const { url } = await serving({}, {}, { store: await withEncryption(inner, [old]), onError: () => undefined })
    const functions = { one: () => null }
    const other = await openRuntime({ functions }, { store: await withEncryption(inner, [young, old]) })
    onTestFinished(() => other.close())
    const run = await other.submit(flowOf({ one: {} }, { approval: {} }))
    expect(await run.rest()).toBe('waiting')
    const response = await fetch(`${url}/metrics`)
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('\nmplp_confirms_waiting 1\n')
  })

  it('describes every route that it answers, and no other', async () => {
    const { ask, server } = await serving()
    const { paths } = (await ask('GET', '/openapi.json')).body as {
      paths: { [path: string]: { [method: string]: { responses: object; 'x-role'?: string } } }
    }
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    )
    expect(described.length).toBeGreaterThan(25)
    expect(described.sort()).toEqual([...server.routes].sort())
    const open = Object.entries(paths).flatMap(([path, methods]) =>
      Object.values(methods).some((one) => one['x-role'] === undefined) ? [path] : [],
    )
    expect(open.sort()).toEqual(['/health', '/openapi.json', '/ready'])
  })

  it('writes its description once, however often it is asked for', async () => {
    const { ask } = await serving()
    const writing = vi.spyOn(JSON, 'stringify')
    onTestFinished(() => writing.mockRestore())
    const answers = [await ask('GET', '/openapi.json'), await ask('GET', '/openapi.json')]
    expect(answers[1]).toMatchObject({ status: 200, body: answers[0]!.body })
    expect(answers[1]!.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(writing.mock.calls.filter(([value]) => value?.openapi === '3.1.0')).toHaveLength(1)
  })

  it('describes itself, with no reference that leads nowhere', async () => {
    const { ask } = await serving()
    const document = (await ask('GET', '/openapi.json')).body as {
      openapi: string
      paths: { [path: string]: { [method: string]: unknown } }
      components: { schemas: { [name: string]: unknown } }
    }
    expect(document.openapi).toBe('3.1.0')
    const named = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(
      ([, n]) => n!,
    )
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((name) => !(name in document.components.schemas))).toEqual([])
  })
})
