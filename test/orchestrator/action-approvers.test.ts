import { describe, expect, it, onTestFinished } from 'vitest'
import type { Approvers } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { toolAdapter, toolRegistry } from '../../src/ael/tool.ts'
import { filledToSee } from '../../src/orchestrator/references.ts'
import { waitsOf } from '../../src/orchestrator/waits.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError, RuleViolation, Unavailable } from '../../src/protocol/errors.ts'
import { digestOfJson, type Json } from '../../src/protocol/json.ts'
import type { ActionRecord } from '../../src/psg/change.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collect } from '../contracts/backend/given.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { inTime, noted, until, world } from '../support/on-a-clock.ts'

const TWO_OF_THREE = { roles: ['dba', 'lead', 'owner'], needed: 2 }
const asked = (approval: unknown) => flowOf({ drop: { binding: { approval: approval as never } } })
const yes = (decided_by_role: string) => ({ status: 'approved', decided_by_role }) as const

const SPEC = { text: 'x'.repeat(60_000), short: 'in short' }
/** The flow with these steps asking before they are called with these args. */
const takingUp = (flow: ReturnType<typeof flowOf>, steps: { readonly [name: string]: Json }) => {
  const bound = Object.entries(steps).map(([name, args]) => [
    flow.ids[name]!,
    { action_type: 'function', params: { name: 'noop', args }, approval: 'ask' as const },
  ])
  return { ...flow, bindings: { steps: { ...flow.bindings?.steps, ...Object.fromEntries(bound) } } }
}

/** A tool that asks these people, as a layer that asks through the run. */
const askingTool = (approvers: Approvers, done: string[]) => (hands: Hands) =>
  actionLayer({
    ...hands,
    adapters: [
      toolAdapter(
        toolRegistry([
          {
            name: 'db.drop',
            description: 'Drops a table',
            input: { type: 'object' },
            policy: 'ask',
            approvers,
            execute: () => void done.push('drop'),
          },
        ]),
      ),
    ],
  })

describe('who must agree to an action', () => {
  it.each(['binding', 'tool'])('is as many of the roles as its %s says, and nobody else', async (by) => {
    const done: string[] = []
    const runtime =
      by === 'tool'
        ? await runtimeOf({}, { layer: askingTool(TWO_OF_THREE, done) })
        : await runtimeOf({ drop: () => void done.push('drop') })
    onTestFinished(() => runtime.close())
    const call = { action_type: 'tool_call', params: { tool_name: 'db.drop', tool_args: {} } }
    const run = await runtime.submit(by === 'tool' ? flowOf({ drop: { binding: call } }) : asked(TWO_OF_THREE))
    expect(await run.rest()).toBe('waiting')
    const [question] = await runtime.waiting()
    expect(question).toMatchObject(TWO_OF_THREE)
    const { confirm_id } = question!.confirm
    await expect(runtime.decide(confirm_id, yes('intern'))).rejects.toThrow(RuleViolation)
    expect((await runtime.decide(confirm_id, yes('owner'))).status).toBe('pending')
    expect((await runtime.decide(confirm_id, yes('owner'))).status).toBe('pending') // one voice, however often
    expect(await run.rest()).toBe('waiting')
    expect((await runtime.waiting())[0]).toMatchObject({ ...TWO_OF_THREE, approved_by: ['owner'] })
    expect(waitsOf(await runtime.project.context(run.context_id), run.plan_id)).toMatchObject([
      { decision: { confirm_id, roles: ['dba', 'lead'] } },
    ])
    expect(done).toEqual([])
    expect((await runtime.decide(confirm_id, yes('dba'))).status).toBe('approved')
    expect(await run.result()).toMatchObject({ status: 'completed' })
    expect(done).toEqual(['drop'])
    expect((await runtime.project.verify()).findings).toEqual([])
  })

  it('decides about what they saw, or not at all', async () => {
    const runtime = await runtimeOf(noted('drop').functions)
    onTestFinished(() => runtime.close())
    await (await runtime.submit(asked('ask'))).rest()
    const [question] = await runtime.waiting()
    const { confirm_id } = question!.confirm
    const other = `sha256:${'0'.repeat(64)}` as const
    await expect(runtime.decide(confirm_id, { ...yes('me'), digest: other })).rejects.toThrow('digest')
    expect((await runtime.decide(confirm_id, { ...yes('me'), digest: question!.digest! })).status).toBe('approved')
  })

  it('is told what the binding says, on whose behalf', async () => {
    const runtime = await runtimeOf(noted('drop').functions)
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(asked({ reason: 'Drop the table?', requested_by_role: 'migrator' }))
    await run.rest()
    const [question] = await runtime.waiting()
    expect(question!.confirm).toMatchObject({ reason: 'Drop the table?', requested_by_role: 'migrator' })
    expect(question!.roles).toBeUndefined()
  })

  it('is shown what would be done, with the outputs that it takes up, and the digest of those that are too large to be shown', async () => {
    const store = memoryBackend()
    const layer = actionLayer({
      adapters: [functionAdapter({ price: () => ({ amount: 12 }), file: () => 'x'.repeat(100_000), pay: () => null })],
      blobs: { put: store.putBlob, get: store.getBlob },
    })
    const runtime = await runtimeOf({}, { store, layer })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ price: {}, file: {}, pay: { after: ['price', 'file'] } })
    const [from, file] = [{ $from: flow.ids.price!, path: 'amount' }, { $from: flow.ids.file! }]
    const pay = {
      action_type: 'function',
      params: { name: 'pay', args: { amount: from, file } },
      approval: 'ask',
    } as const
    const steps = { ...flow.bindings?.steps, [flow.ids.pay!]: pay }
    const run = await runtime.submit({ ...flow, bindings: { steps } })
    await run.rest()
    const [question] = await runtime.waiting()
    const [digest] = await collect(store.blobs())
    expect(digest).toBeDefined()
    expect(question!.shows?.arguments).toEqual({ name: 'pay', args: { amount: 12, file: { ...file, digest } } })
  })

  it('is shown the digest of outputs that would make a question too large, however many it takes up', async () => {
    const runtime = await runtimeOf({ spec: () => SPEC })
    onTestFinished(() => runtime.close())
    const flow = flowOf({ spec: {}, pay: { after: ['spec'] } })
    const spec = { $from: flow.ids.spec! }
    const args = [spec, ...Array.from({ length: 600 }, () => spec), { ...spec, path: 'short' }]
    const run = await runtime.submit(takingUp(flow, { pay: args }))
    expect(await run.rest()).toBe('waiting')
    const [question] = await runtime.waiting()
    const shown = Object(question!.shows?.arguments).args
    expect(shown.at(0)).toEqual(SPEC)
    expect(shown.slice(1, -1)).toEqual(args.slice(1, -1).map(() => ({ ...spec, digest: digestOfJson(SPEC) })))
    expect(shown.at(-1)).toBe('in short')
  })

  it('is asked about hundreds of steps that take up the same', async () => {
    const runtime = await runtimeOf({ spec: () => SPEC })
    onTestFinished(() => runtime.close())
    const names = Array.from({ length: 600 }, (_, i) => `s${i}`)
    const flow = flowOf({ spec: {}, ...Object.fromEntries(names.map((name) => [name, { after: ['spec'] }])) })
    const each = Object.fromEntries(names.map((name) => [name, { $from: flow.ids.spec! }]))
    const run = await runtime.submit(takingUp(flow, each))
    expect(await run.rest()).toBe('waiting')
    expect(await runtime.waiting()).toHaveLength(names.length)
    expect(runtime.errors).toEqual([])
  })

  it('is shown the digest of an answer among others that lies in the store', () => {
    const digest = digestOfJson('what bob said')
    const said: Partial<ActionRecord> = {
      output: [
        { participant_id: 'ann', output: { text: 'what ann said' } },
        { participant_id: 'bob', output_blob: digest },
      ],
      settles: { what: 'answers' },
    }
    const at = (path: string) => ({ $from: 'poll', path })
    const params = { ann: at('0.output.text'), bob: at('1.output.text'), who: at('1.participant_id') }
    expect(filledToSee(params, () => said as ActionRecord)).toEqual({
      ann: 'what ann said',
      bob: { ...params.bob, digest },
      who: 'bob',
    })
  })

  it('is remembered over a restart, with those who have agreed already', async () => {
    const { called, functions } = noted('drop')
    const { start, clock } = world(functions)
    const first = await start()
    const flow = asked(TWO_OF_THREE)
    const run = await first.submit(flow)
    await until(clock, () => run.phase === 'waiting')
    const { confirm_id } = (await first.waiting())[0]!.confirm
    await first.decide(confirm_id, yes('lead'))
    first.die()
    const second = await start()
    onTestFinished(() => second.close())
    expect((await second.waiting())[0]).toMatchObject(TWO_OF_THREE)
    await second.decide(confirm_id, yes('dba'))
    expect(await inTime(clock, (await second.get(run.run_id)).result())).toMatchObject({ status: 'completed' })
    expect(called).toEqual(['drop'])
  })

  it('is turned down once, and told by whom and why', async () => {
    const runtime = await runtimeOf(noted('drop').functions)
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(asked('ask'))
    await run.rest()
    const { confirm_id } = (await runtime.waiting())[0]!.confirm
    const no = { status: 'rejected', decided_by_role: 'lead', reason: 'not today' } as const
    const { decisions } = await runtime.decide(confirm_id, no)
    expect(decisions).toHaveLength(1)
    const again = runtime.decide(confirm_id, { ...no, decided_by_role: 'dba' })
    await expect(again).rejects.toThrow(`confirm ${confirm_id} is rejected already, by lead`)
    expect((await run.result()).error).toMatchObject({
      code: 'action_rejected',
      message: 'function was rejected by lead: not today',
    })
  })

  it('has as long as the binding says', async () => {
    const { called, functions } = noted('drop')
    const { start, clock } = world(functions)
    const runtime = await start()
    onTestFinished(() => runtime.close())
    const began = clock.now()
    const run = await runtime.submit(asked({ expires_ms: 60_000 }))
    const result = await inTime(clock, run.result())
    expect(result).toMatchObject({ status: 'failed', error: { code: 'action_rejected' } })
    expect(result.error?.message).toContain('had no approval in time')
    expect(clock.now() - began).toBeLessThan(2 * 60_000)
    expect(called).toEqual([])
  })

  it('agrees to every attempt at it, also to one that comes when the time to say so is over', async () => {
    let calls = 0
    const { start, clock } = world({
      drop() {
        if (calls++ === 0) throw new ActionError('action_failed', 'not yet', { retryable: true })
        return null
      },
    })
    const runtime = await start()
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 120_000 } as const
    const run = await runtime.submit(flowOf({ drop: { binding: { approval: { expires_ms: 60_000 }, retry } } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, yes('owner'))
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(calls).toBe(2)
    await inTime(clock, runtime.close())
  })

  it('is asked as well whether what was cut off may be begun again', async () => {
    let begun = 0
    const { start, clock } = world({
      drop: () => {
        begun++
        return new Promise(() => undefined)
      },
    })
    const first = await start()
    const flow = flowOf({ drop: { binding: { approval: TWO_OF_THREE, on_interrupt: 'hold' } } })
    const run = await first.submit(flow)
    await until(clock, () => run.phase === 'waiting')
    const { confirm_id } = (await first.waiting())[0]!.confirm
    for (const role of ['dba', 'lead']) await first.decide(confirm_id, yes(role))
    await until(clock, () => begun === 1)
    first.die()
    const second = await start()
    onTestFinished(() => second.die())
    const taken = await second.get(run.run_id)
    await until(clock, () => taken.phase === 'waiting')
    expect((await second.waiting())[0]).toMatchObject(TWO_OF_THREE)
  })
})

describe('an approval that cannot be', () => {
  it.each<[string, unknown, string, string]>([
    ['a word for it that is none', 'maybe', 'approval', 'type'],
    ['more voices than roles', { roles: ['dba', 'dba'], needed: 2 }, 'approval.needed', 'reachable'],
    ['no voice', { needed: 0 }, 'approval.needed', 'range'],
    ['an option that is not known', { rolls: ['dba'] }, 'approval.rolls', 'extra_forbidden'],
    ['no time', { expires_ms: 0 }, 'approval.expires_ms', 'range'],
  ])('is refused, with nothing left behind: %s', async (_, approval, path, rule) => {
    const runtime = await runtimeOf({})
    onTestFinished(() => runtime.close())
    const flow = asked(approval)
    await expect(runtime.submit(flow)).rejects.toMatchObject({
      problems: [expect.objectContaining({ path: `bindings.steps.${flow.ids.drop}.${path}`, rule })],
    })
    expect(await runtime.waiting()).toEqual([])
    await expect(runtime.get(flow.plan.plan_id)).rejects.toThrow('there is no')
  })

  it('is refused of a tool when it is registered', () => {
    const tool = { name: 'db.drop', description: '', input: {}, execute: () => null }
    expect(() => toolRegistry([{ ...tool, approvers: { needed: 2, roles: ['dba'] } }])).toThrow('approvers.needed')
    expect(() => toolRegistry([{ ...tool, approvers: 'dba' as never }])).toThrow('approvers')
  })

  it('fails the one action whose adapter asks for it', async () => {
    const adapter = {
      ...functionAdapter({ drop: () => null }),
      approval: () => ({
        policy: 'ask' as const,
        tool: 'drop',
        arguments: {},
        description: 'Drop?',
        approvers: { needed: 0 },
      }),
    }
    const runtime = await runtimeOf({}, { layer: (hands) => actionLayer({ ...hands, adapters: [adapter] }) })
    onTestFinished(() => runtime.close())
    const run = await runtime.submit(flowOf({ drop: {} }))
    expect(await run.result()).toMatchObject({ status: 'failed' })
    expect((await run.result()).error?.message).toContain('approvers.needed')
  })
})

describe('an approval that expires while the store cannot be written to', () => {
  const MINUTE = 60_000

  /** Refuses the commits that use up an approval, once it is away, for two minutes. */
  function mayBeAway(clock: ManualClock) {
    let back = 0
    const seen = (store: Backend): Backend => ({
      ...store,
      async commit(write) {
        const uses = clock.now() < back && JSON.stringify(write.entry ?? null).includes('"used_by"')
        if (uses) throw new Unavailable('the store', 'wait for it')
        return store.commit(write)
      },
    })
    return {
      seen,
      away: () => {
        back = clock.now() + 2 * MINUTE
      },
    }
  }

  it.each([
    ['an action', { approval: { expires_ms: MINUTE } }, {}, { status: 'failed', error: { code: 'action_rejected' } }],
    ['a plan', {}, { approval: { expires_ms: MINUTE } }, { status: 'cancelled', error: { code: 'approval_expired' } }],
  ] as const)('counts as not given, of %s', async (_, binding, more, ends) => {
    const { called, functions } = noted('drop')
    const { clock, start } = world(functions)
    const { seen, away } = mayBeAway(clock)
    const runtime = await start({ onAway: () => undefined }, seen)
    const run = await runtime.submit(flowOf({ drop: { binding } }, more))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const [question] = await runtime.waiting()
    away()
    await runtime.decide(question!.confirm.confirm_id, yes('lead'))
    expect(await inTime(clock, run.result())).toMatchObject(ends)
    expect({ called, errors: runtime.errors }).toEqual({ called: [], errors: [] })
    await inTime(clock, runtime.close())
  })

  it('keeps nobody waiting who had asked before whether its run rests, where its context was suspended meanwhile', async () => {
    const { called, functions } = noted('drop', 'next')
    const { clock, start } = world(functions)
    const { seen, away } = mayBeAway(clock)
    const runtime = await start({ onAway: () => undefined }, seen)
    const drop = { binding: { approval: { expires_ms: MINUTE }, on_failure: 'skip' } } as const
    const run = await runtime.submit(flowOf({ drop, next: { after: ['drop'] } }))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const [question] = await runtime.waiting()
    away()
    await runtime.decide(question!.confirm.confirm_id, yes('lead'))
    const rest = run.rest()
    const other = await start({ mine: new Set() })
    const { context_id } = run
    await other.call('context', { intent: 'suspend', context_id })
    expect(await inTime(clock, rest)).toBe('waiting')
    await other.call('context', { intent: 'activate', context_id })
    expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect({ called, errors: runtime.errors }).toEqual({ called: ['next'], errors: [] })
    await inTime(clock, Promise.all([runtime.close(), other.close()]))
  })
})

describe('an approval whose time is over by the clock of another process that has written since', () => {
  it.each([
    ['an action', { approval: { expires_ms: 60_000 } }, {}, { status: 'failed', error: { code: 'action_rejected' } }],
    ['a plan', {}, { approval: { expires_ms: 60_000 } }, { status: 'cancelled', error: { code: 'approval_expired' } }],
  ] as const)('counts as not given, of %s', async (_, binding, more, ends) => {
    const { called, functions } = noted('drop')
    const { clock, start } = world(functions)
    const runtime = await start()
    const run = await runtime.submit(flowOf({ drop: { binding } }, more))
    expect(await inTime(clock, run.rest())).toBe('waiting')
    const { context_id } = run
    const ahead = manualClock({ seed: 2, now: clock.now() + 50_000 })
    const other = await start({ clock: ahead, mine: new Set() })
    await other.call('context', { intent: 'suspend', context_id })
    const [question] = await runtime.waiting()
    await other.decide(question!.confirm.confirm_id, yes('lead'))
    await ahead.advance(20_000)
    await other.call('context', { intent: 'activate', context_id })
    expect(await inTime(clock, run.result())).toMatchObject(ends)
    expect({ called, errors: runtime.errors }).toEqual({ called: [], errors: [] })
    await inTime(ahead, other.close())
    await inTime(clock, runtime.close())
  })
})
