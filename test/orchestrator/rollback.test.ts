import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { ActionLayer } from '../../src/ael/layer.ts'
import { disk } from '../../src/drift/root.ts'
import { trackFiles } from '../../src/drift/track.ts'
import type { Tracker, TrackOptions } from '../../src/drift/tracker.ts'
import type { BindingSpec } from '../../src/orchestrator/bind.ts'
import { type RollbackOptions, rollback } from '../../src/orchestrator/rollback.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { withTracking } from '../../src/orchestrator/tracked-files.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput, NotFound, Refused, Unavailable } from '../../src/protocol/errors.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { BY, contextOf, put } from '../drift/given.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

/** A runtime whose file adapter writes into a tracked folder, and functions that note that they were called. */
async function world(
  files: { readonly [path: string]: string },
  { dies = false, ...options }: Partial<TrackOptions> & { readonly dies?: boolean } = {},
) {
  const store = memoryBackend()
  const root = tempFolder()
  put(root, files)
  const calls: Json[] = []
  const layer = actionLayer({
    adapters: [
      functionAdapter({
        effect: () => 'done',
        boom: () => {
          throw new Error('boom')
        },
        undo: (args: Json) => void calls.push(args),
        undoFails: (args: Json) => {
          calls.push(args)
          throw new Error('cannot be taken back today')
        },
      }),
    ],
  })
  const runtime = await createRuntime({ store, layer })
  const context_id = systemClock.uuid()
  const graph = await runtime.project.create(contextOf(context_id), BY)
  const tracker = await trackFiles(graph, { root, ...options })
  const blobs = { put: (bytes: Uint8Array) => store.putBlob(bytes), get: store.getBlob }
  const adapter = await fileAdapter({ root, blobs, staleCheck: tracker.staleCheck })
  layer.register(withTracking(dies ? cuttingOff(adapter) : adapter, tracker))

  return {
    root,
    graph,
    tracker,
    calls,
    layer,
    runtime,
    text: (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined),
    async run(steps: { readonly [name: string]: StepSpec }, options: JsonObject = {}) {
      const flow = flowOf(steps)
      const run = await runtime.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id }, options })
      const result = await run.result()
      await tracker.idle()
      return { ...run, run_id: run.run_id, plan_id: run.plan_id, trace_id: run.trace_id, result, ids: flow.ids }
    },
    rollback: (run: string, more: RollbackOptions = {}) => rollback({ graph, layer, tracker }, run, more),
    async close() {
      await tracker.close()
      await runtime.close()
      await layer.close()
    },
  }
}

/** Its first attempts do what they are for, and nobody hears of it. */
const cuttingOff = (adapter: Adapter): Adapter => ({
  ...adapter,
  async execute(action, call) {
    const outcome = await adapter.execute(action, call)
    if (call.attempt === 1) throw new ActionError('action_failed', 'cut off', { retryable: true })
    return outcome
  },
})

const file = (params: JsonObject): { readonly binding: Partial<BindingSpec> } => ({
  binding: { action_type: 'file_operation', params },
})
const effect = (name: string, inverse = 'undo'): StepSpec => ({
  call: 'effect',
  binding: { inverse: { action_type: 'function', params: { name: inverse, args: name } } },
})
const chain = (steps: { readonly [name: string]: StepSpec }): { readonly [name: string]: StepSpec } => {
  const names = Object.keys(steps)
  return Object.fromEntries(
    names.map((name, i) => [name, { ...steps[name], ...(i > 0 && { after: [names[i - 1]!] }) }]),
  )
}
/** What is told of the attempts at these actions. */
async function executionsOf({ store, id }: ProjectGraph, actions: readonly { readonly action_id: string }[]) {
  const told: JsonObject[] = []
  for await (const entry of store.read(id))
    for (const { event } of eventsIn(entry)) {
      const { action_id } = (event.payload ?? {}) as JsonObject
      const isTheirs = actions.some((action) => action.action_id === action_id)
      if (event.event_family === 'runtime_execution' && isTheirs) told.push(event as unknown as JsonObject)
    }
  return told
}
const many = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [
      `s${n}`,
      file({ operation: 'write', path: `${n % 7}/${n}`, content: 'x' }),
    ]),
  )
const THREE = chain({
  change: file({ operation: 'write', path: 'a.txt', content: 'by the run\n' }),
  create: file({ operation: 'write', path: 'new/b.txt', content: 'new\n' }),
  remove: file({ operation: 'delete', path: 'c.txt' }),
})

describe('a run that writes files', () => {
  it('leaves them in the graph, with who wrote them, and no finding', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { ids, result } = await it.run(THREE)
    expect(result.status).toBe('completed')
    expect((await it.tracker.scan()).findings).toEqual([])
    const records = [...it.graph.state.nodesOf('files')].flatMap((node) => (node.kind === 'file' ? [node.data] : []))
    expect(records.map(({ path }) => path).sort()).toEqual(['a.txt', 'new/b.txt'])
    const action = it.graph.get('action', records.find(({ path }) => path === 'a.txt')!.written_by!)
    expect(action?.data.step_id).toBe(ids.change)
    await it.close()
  })

  it('is refused what somebody changed since it was read', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const { result } = await it.run(
      chain({
        read: file({ operation: 'read', path: 'a.txt' }),
        meddle: { call: 'effect' },
        write: file({ operation: 'write', path: 'a.txt', content: 'mine\n' }),
      }),
    )
    expect(result.status).toBe('completed')
    writeFileSync(join(it.root, 'a.txt'), 'theirs\n')
    const stale = await it.run({ write: file({ operation: 'write', path: 'a.txt', content: 'mine again\n' }) })
    expect(stale.result).toMatchObject({ status: 'failed', error: { message: 'a.txt has changed since it was read' } })
    expect(it.text('a.txt')).toBe('theirs\n')
    await it.close()
  })

  it('may write over what it has read, though the graph does not know it yet', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    writeFileSync(join(it.root, 'a.txt'), 'theirs\n')
    const { result } = await it.run(
      chain({
        read: file({ operation: 'read', path: 'a.txt' }),
        write: file({ operation: 'write', path: 'a.txt', content: 'theirs\nand mine\n' }),
      }),
    )
    expect(result.status).toBe('completed')
    expect((await it.tracker.scan()).findings).toEqual([])
    await it.close()
  })

  it('writes one file by several steps at once, one after the other, and takes all of it back', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const write = (content: string) => file({ operation: 'write', path: 'a.txt', content })
    const run = await it.run({ one: write('1\n'), two: write('2\n'), three: write('3\n') })
    expect(run.result.status).toBe('completed')
    expect((await it.tracker.scan()).findings).toEqual([])
    expect((await it.rollback(run.run_id)).status).toBe('done')
    expect(it.text('a.txt')).toBe('old\n')
    await it.close()
  })

  it('is denied what the ignore rules keep out', async () => {
    const it = await world({ '.mplpignore': 'secret/\n' })
    const { result } = await it.run({ write: file({ operation: 'write', path: 'secret/x', content: 'x' }) })
    expect(result).toMatchObject({ status: 'failed', error: { code: 'action_denied' } })
    expect(it.text('secret/x')).toBeUndefined()
    await it.close()
  })

  it('is bound by the ignore rules that it writes itself, until they are taken back', async () => {
    const it = await world({})
    const rules = await it.run({ rules: file({ operation: 'write', path: '.gitignore', content: '*.log\n' }) })
    expect(await it.tracker.mayWrite('x.log')).toBe(false)
    await it.rollback(rules.run_id)
    expect(await it.tracker.mayWrite('x.log')).toBe(true)
    put(it.root, { '.gitignore': '*.log\n' })
    expect((await it.tracker.scan()).findings.map(({ path }) => path)).toEqual(['.gitignore'])
    await it.tracker.reconcile(['.gitignore'], 'graph')
    expect(await it.tracker.mayWrite('x.log')).toBe(true)
    await it.close()
  })

  it('brings graph and files back by itself when it fails and is to compensate', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { result } = await it.run(chain({ ...THREE, boom: { call: 'boom', binding: { on_failure: 'compensate' } } }))
    expect(result.status).toBe('failed')
    expect([it.text('a.txt'), it.text('new/b.txt'), it.text('c.txt')]).toEqual(['old\n', undefined, 'c\n'])
    expect((await it.tracker.scan()).findings).toEqual([])
    await it.close()
  })
})

describe('a rollback', () => {
  it('says first what it would do, and does nothing', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { run_id } = await it.run(THREE)
    const revision = it.graph.revision
    const { status, plan } = await it.rollback(run_id, { dryRun: true })
    expect(status).toBe('planned')
    expect(plan.files.map(({ path, before }) => [path, before === null])).toEqual([
      ['a.txt', false],
      ['new/b.txt', true],
      ['c.txt', false],
    ])
    expect([plan.effects, plan.conflicts, plan.impossible, plan.irreversible]).toEqual([[], [], [], []])
    expect([it.graph.revision, it.text('a.txt')]).toEqual([revision, 'by the run\n'])
    await it.close()
  })

  it('reads the journal once to find its way, however many files there are', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { run_id } = await it.run(THREE)
    const { born } = it.graph.get('run', run_id)!
    const read = vi.spyOn(it.graph.store, 'read')
    expect((await it.rollback(run_id, { dryRun: true })).plan.files).toHaveLength(3)
    expect(read.mock.calls.filter(([id, from]) => id === it.graph.id && from?.after === born)).toHaveLength(1)
    await it.close()
  })

  it('brings graph, files and outside effects back, in a trace of its own', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const run = await it.run(chain({ ...THREE, first: effect('first'), second: effect('second') }))
    const report = await it.rollback(run.run_id)
    expect([report.status, report.left]).toEqual(['done', []])
    expect(it.calls).toEqual(['second', 'first'])
    expect([it.text('a.txt'), it.text('new/b.txt'), it.text('c.txt')]).toEqual(['old\n', undefined, 'c\n'])
    expect(readdirSync(join(it.root, 'new'))).toEqual([]) // as the documents say: nobody knows whether the folder was there before
    expect((await it.tracker.scan()).findings).toEqual([])
    const trace = await it.graph.document('trace', report.trace_id!)
    expect([trace.plan_id, trace.status, trace.segments?.map(({ status }) => status)]).toEqual([
      run.plan_id,
      'completed',
      ['completed', 'completed'],
    ])
    expect((await it.graph.document('trace', run.trace_id)).status).toBe('completed')
    expect((await it.graph.document('plan', run.plan_id)).status).toBe('completed')
    expect(await it.graph.verify()).toEqual([])
    await it.close()
  })

  it('tells its story in compensation_plan events', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run({ first: effect('first') })
    await it.rollback(run.run_id)
    const types: string[] = []
    for await (const entry of it.graph.store.read(it.graph.id))
      for (const { event } of eventsIn(entry))
        if (event.event_family === 'compensation_plan') types.push(event.event_type)
    expect(types).toEqual(['rollback_planned', 'rollback_executed'])
    await it.close()
  })

  it('takes very many files back in several commits, and goes on with the rest when it was cut off in between', async () => {
    const it = await world({ 'kept.txt': 'as it was\n', 'was-file': 'a file\n' })
    const begin = it.graph.revision
    const run = await it.run({
      ...many(510),
      change: file({ operation: 'write', path: 'kept.txt', content: 'by the run\n' }),
      away: file({ operation: 'delete', path: 'was-file' }),
      inside: { ...file({ operation: 'write', path: 'was-file/now/folder', content: 'x' }), after: ['away'] },
    })
    expect(run.result.status).toBe('completed')
    const ran = it.graph.revision
    let portions = 0
    const takeBack: Tracker['takeBack'] = (taking) => {
      if (++portions === 2) throw new Unavailable('the store', 'it is gone')
      return it.tracker.takeBack(taking)
    }
    const cutOff = rollback({ graph: it.graph, layer: it.layer, tracker: { ...it.tracker, takeBack } }, run.run_id)
    await expect(cutOff).rejects.toThrow(Unavailable)
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'done', left: [] })
    expect(it.graph.revision).toBeGreaterThan(ran)
    const there = readdirSync(it.root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    expect(there.map(({ name }) => name).sort()).toEqual(['kept.txt', 'was-file'])
    expect([it.text('kept.txt'), it.text('was-file')]).toEqual(['as it was\n', 'a file\n'])
    for await (const { body } of it.graph.store.read(it.graph.id, { after: begin }))
      expect((body as unknown as EntryBody).changes.filter(({ key }) => key.includes('/file/')).length).toBeLessThan(
        501,
      )
    expect(await it.tracker.scan()).toMatchObject({ files: 2, findings: [] })
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'nothing' })
    await it.close()
  }, 60_000)

  it('has nothing to do the second time', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const run = await it.run(chain({ ...THREE, first: effect('first') }))
    await it.rollback(run.run_id)
    expect((await it.rollback(run.run_id)).status).toBe('nothing')
    expect(it.calls).toEqual(['first'])
    await it.close()
  })

  it('attempts every inverse, whatever becomes of one, and tries the failed ones again when asked again', async () => {
    const it = await world({})
    const run = await it.run(chain({ a: effect('a'), b: effect('b', 'undoFails'), c: effect('c') }))
    const report = await it.rollback(run.run_id)
    expect(report.status).toBe('incomplete')
    expect(report.effects.map(({ status }) => status)).toEqual(['undone', 'failed', 'undone'])
    expect(report.left).toEqual([{ what: 'effect', name: expect.any(String), reason: 'cannot be taken back today' }])
    expect(it.calls).toEqual(['c', 'b', 'a'])
    await it.rollback(run.run_id)
    expect(it.calls).toEqual(['c', 'b', 'a', 'b'])
    await it.close()
  })

  it('is incomplete, and asks nobody, where all there is cannot be undone', async () => {
    const it = await world({})
    const run = await it.run({ sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } } })
    const left = [{ what: 'effect', reason: 'it cannot be undone' }]
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'incomplete', left })
    expect(await it.graph.query({ kind: 'confirm', where: { status: 'pending' } })).toMatchObject({ nodes: [] })
    await it.close()
  })

  describe('of files whose first attempt was cut off before it could say what was there', () => {
    const retry = { strategy: 'fixed', max_attempts: 2, delay_ms: 0 } as const
    const cutOff = (params: JsonObject, more: Partial<BindingSpec> = {}) => ({
      binding: { action_type: 'file_operation', params, retry, ...more },
    })
    const steps = (more: Partial<BindingSpec> = {}) =>
      chain({
        change: cutOff({ operation: 'write', path: 'a.txt', content: 'new\n' }, more),
        create: cutOff({ operation: 'write', path: 'b.txt', content: 'new\n' }, more),
        remove: cutOff({ operation: 'delete', path: 'c.txt' }, more),
      })
    const before = { 'a.txt': 'old\n', 'c.txt': 'c\n' }

    it('says of none that it cannot be undone where the graph has them, since all are restored; also when asked again', async () => {
      const it = await world(before, { dies: true })
      const { run_id, result, ids } = await it.run(steps())
      expect(result).toMatchObject({ success: true, outputs: { [ids.change!]: { repeated: true } } })
      expect(await it.rollback(run_id, { dryRun: true })).toMatchObject({ plan: { irreversible: [] }, left: [] })
      expect(await it.rollback(run_id)).toMatchObject({ status: 'done', left: [] })
      expect(['a.txt', 'b.txt', 'c.txt'].map(it.text)).toEqual(['old\n', undefined, 'c\n'])
      expect(await it.rollback(run_id)).toMatchObject({ status: 'nothing', plan: { irreversible: [] }, left: [] })
      await it.close()
    })

    it('says it where nobody tracks them, where the content was not kept, and where the step says so', async () => {
      const it = await world({ ...before, 'large.txt': 'x'.repeat(100) }, { dies: true, keepBytes: 50 })
      const large = await it.run({ large: cutOff({ operation: 'write', path: 'large.txt', content: 'new\n' }) })
      expect(await it.rollback(large.run_id, { dryRun: true })).toMatchObject({
        plan: { irreversible: [{ step_id: large.ids.large }], impossible: [{ name: 'large.txt' }] },
      })
      const { run_id } = await it.run(steps())
      const untracked = await rollback({ graph: it.graph, layer: it.layer }, run_id, { dryRun: true })
      expect(untracked.plan.irreversible).toHaveLength(3)
      await it.rollback(run_id)
      const said = await it.run(steps({ inverse: 'irreversible', approval: 'none' }))
      expect((await it.rollback(said.run_id, { dryRun: true })).plan.irreversible).toHaveLength(3)
      await it.close()
    })

    it('says it where the graph took one in for somebody else’s before it heard of the run, and leaves that', async () => {
      const it = await world(before, { dies: true })
      const { writing } = it.tracker
      let attempts = 0
      vi.spyOn(it.tracker, 'writing').mockImplementation(async (paths) => {
        if (++attempts === 2) {
          await it.tracker.look(paths)
          await it.tracker.reconcile(paths, 'files')
        }
        return writing(paths)
      })
      const { run_id } = await it.run({ change: cutOff({ operation: 'write', path: 'a.txt', content: 'new\n' }) })
      expect(attempts).toBe(2)
      expect(await it.rollback(run_id, { irreversible: 'leave' })).toMatchObject({
        left: [{ what: 'effect', reason: 'it cannot be undone' }],
      })
      expect(it.text('a.txt')).toBe('new\n')
      await it.close()
    })
  })

  it('begins again when it was cut off: what was under way is closed, and tried again under the same key', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run(
      chain({ first: effect('first'), write: file({ operation: 'write', path: 'a.txt', content: 'run\n' }) }),
    )
    const { store } = it.graph
    const commit = store.commit.bind(store)
    store.commit = (write) =>
      it.calls.length > 0 ? Promise.reject(new Unavailable('the store', 'wait')) : commit(write)
    await expect(it.rollback(run.run_id)).rejects.toThrow(Unavailable)
    store.commit = commit
    const report = await it.rollback(run.run_id)
    expect([report.status, it.calls, it.text('a.txt')]).toEqual(['done', ['first', 'first'], 'old\n'])
    const parts = [...it.graph.state.nodesOf(run.plan_id)]
    const traces = parts.flatMap((node) =>
      node.kind === 'trace' && node.id !== run.trace_id ? [node.data.status] : [],
    )
    expect(traces.sort()).toEqual(['completed', 'failed'])
    const inverses = parts.flatMap((node) => (node.kind === 'action' && node.data.compensates ? [node.data] : []))
    expect(inverses.map(({ status }) => status).sort()).toEqual(['completed', 'failed'])
    expect(new Set(inverses.map(({ idempotency_key }) => idempotency_key)).size).toBe(1)
    const attempts = await executionsOf(it.graph, inverses)
    expect(attempts.map(({ event_type, status }) => [event_type, status])).toEqual([
      ['execution_started', 'running'],
      ['execution_failed', 'failed'],
      ['execution_started', 'running'],
      ['execution_completed', 'completed'],
    ])
    const operations = attempts.map(({ payload }) => (payload as JsonObject).operation)
    expect(operations).toEqual(Array(4).fill('undo')) // as its adapter calls it, like any attempt
    const [first, left, again, done] = attempts
    expect([left!.execution_id, done!.execution_id]).toEqual([first!.execution_id, again!.execution_id])
    expect(left!.payload).toEqual({ ...(first!.payload as JsonObject), interrupted: true })
    expect(await it.graph.verify()).toEqual([])
    await it.close()
  })

  it('tells what was stopped as cancelled, like any attempt', async () => {
    const it = await world({})
    const run = await it.run({ a: effect('a') })
    const report = await it.rollback(run.run_id, { signal: AbortSignal.abort() })
    expect(report).toMatchObject({ status: 'incomplete', effects: [{ status: 'failed' }] })
    const trace = await it.graph.document('trace', report.trace_id!)
    expect(trace.segments).toMatchObject([{ status: 'cancelled', attributes: { error: { code: 'action_aborted' } } }])
    const inverses = [...it.graph.state.nodesOf(run.plan_id)].flatMap((node) =>
      node.kind === 'action' && node.data.compensates ? [node.data] : [],
    )
    expect(inverses.map(({ status }) => status)).toEqual(['cancelled'])
    expect((await executionsOf(it.graph, inverses)).map(({ status }) => status)).toEqual(['running', 'cancelled'])
    expect((await it.rollback(run.run_id)).status).toBe('done')
    await it.close()
  })

  it('leaves the traces alone that others keep of the plan', async () => {
    const it = await world({})
    const run = await it.run({ a: effect('a') })
    const asked = { intent: 'begin', context_id: it.graph.id, plan_id: run.plan_id }
    const { trace_id } = (await it.runtime.call('trace', asked)) as { trace_id: string }
    await it.runtime.call('trace', { intent: 'begin_segment', trace_id, label: 'an audit' })
    expect((await it.rollback(run.run_id)).status).toBe('done')
    expect((await it.rollback(run.run_id)).status).toBe('nothing')
    expect(await it.graph.document('trace', trace_id)).toMatchObject({
      status: 'running',
      segments: [{ status: 'running' }],
    })
    await it.close()
  })

  it('leaves what somebody else changed since, on the disk or in the graph, and says so', async () => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'b\n', 'd.txt': 'd\n' })
    const run = await it.run(
      chain({
        a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        b: file({ operation: 'write', path: 'b.txt', content: 'run\n' }),
        d: file({ operation: 'write', path: 'd.txt', content: 'run\n' }),
      }),
    )
    writeFileSync(join(it.root, 'a.txt'), 'edited\n')
    writeFileSync(join(it.root, 'b.txt'), 'accepted\n')
    await it.tracker.look(['b.txt'])
    await it.tracker.reconcile(['b.txt'], 'files')
    const { status, left } = await it.rollback(run.run_id)
    expect(status).toBe('incomplete')
    expect(left.map(({ what, name }) => [what, name]).sort()).toEqual([
      ['file', 'a.txt'],
      ['file', 'b.txt'],
    ])
    expect([it.text('a.txt'), it.text('b.txt'), it.text('d.txt')]).toEqual(['edited\n', 'accepted\n', 'd\n'])
    await it.close()
  })

  it('leaves what somebody changes, on the disk and in the graph, while the way back is being planned', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }) })
    const { check } = it.graph
    let plans = 0
    it.graph.check = async (...asked) => {
      await check.apply(it.graph, asked)
      if (++plans !== 2) return // the first says what will be done, the second is gone
      put(it.root, { 'a.txt': 'theirs\n' })
      await it.tracker.look(['a.txt'])
      await it.tracker.reconcile(['a.txt'], 'files')
    }
    const { left } = await it.rollback(run.run_id)
    expect(left.map(({ name }) => name)).toEqual(['a.txt'])
    expect([it.text('a.txt'), it.tracker.findings()]).toEqual(['theirs\n', []])
    await it.close()
  })

  it('leaves what somebody saves after the way back has looked at it, and says so', async () => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'b\n' })
    const run = await it.run(
      chain({
        a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        b: file({ operation: 'write', path: 'b.txt', content: 'run\n' }),
        c: file({ operation: 'write', path: 'c.txt', content: 'run\n' }),
      }),
    )
    let looks = 0
    const observed: Tracker['observed'] = async (paths) => {
      const found = await it.tracker.observed(paths)
      if (++looks === 2) put(it.root, { 'a.txt': 'theirs\n', 'c.txt': 'theirs too\n' }) // the first look is for what will be done
      return found
    }
    const tracker = { ...it.tracker, observed }
    const { status, left } = await rollback({ graph: it.graph, layer: it.layer, tracker }, run.run_id)
    expect([it.text('a.txt'), it.text('b.txt'), it.text('c.txt')]).toEqual(['theirs\n', 'b\n', 'theirs too\n'])
    expect([status, left.map(({ name }) => name).sort()]).toEqual(['incomplete', ['a.txt', 'c.txt']])
    await it.close()
  })

  it.each<[string, (root: string) => void, string[]]>([
    ['somebody saves it at the last moment', (root) => put(root, { 'a.txt': 'theirs\n' }), ['incomplete', 'theirs\n']],
    ['its content could not be read', () => Promise.reject(new Unavailable('the store', 'wait')), ['done', 'old\n']],
  ])(
    'names a file that it could not bring back, and does not take it for done the next time: %s',
    async (_, meanwhile, next) => {
      const it = await world({ 'a.txt': 'old\n' })
      const run = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }) })
      const { getBlob } = it.graph.store
      it.graph.store.getBlob = async (digest) => {
        it.graph.store.getBlob = getBlob
        await meanwhile(it.root)
        return getBlob.call(it.graph.store, digest)
      }
      expect(await it.rollback(run.run_id)).toMatchObject({ status: 'incomplete', left: [{ name: 'a.txt' }] })
      const { status } = await it.rollback(run.run_id)
      expect([status, it.text('a.txt')]).toEqual(next)
      expect(await it.graph.verify()).toEqual([])
      await it.close()
    },
  )

  it('takes back a file that is too large to be kept as it says before, also one that was moved', async () => {
    const it = await world({ 'a.txt': 'old\n' }, { keepBytes: 10 })
    const content = 'more than ten bytes'
    const run = await it.run(
      chain({
        make: file({ operation: 'write', path: 'made.txt', content }),
        replace: file({ operation: 'write', path: 'a.txt', content }),
        free: file({ operation: 'write', path: 'c.txt', content }),
        move: file({ operation: 'move', path: 'c.txt', to: 'b.txt' }),
        again: file({ operation: 'write', path: 'c.txt', content: 'new\n' }),
      }),
    )
    expect(await it.rollback(run.run_id, { dryRun: true })).toMatchObject({ left: [] })
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'done', left: [] })
    expect(['a.txt', 'made.txt', 'b.txt', 'c.txt'].map(it.text)).toEqual(['old\n', undefined, undefined, undefined])
    expect([(await it.rollback(run.run_id)).status, (await it.tracker.scan()).findings]).toEqual(['nothing', []])
    await it.close()
  })

  it('takes a file back once that was written through a link', async () => {
    const it = await world({ 'real/a.txt': 'old\n' })
    symlinkSync('real/a.txt', join(it.root, 'link.txt'))
    await it.tracker.scan()
    await it.tracker.reconcile('all', 'files')
    const run = await it.run(
      chain({
        write: file({ operation: 'write', path: 'link.txt', content: 'new\n' }),
        remove: file({ operation: 'delete', path: 'real/a.txt' }),
      }),
    )
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'done', effects: [], left: [] })
    expect(it.text('link.txt')).toBe('old\n')
    await it.close()
  })

  it('keeps a file where it was moved to, in what is tracked, while others are where it came from', async () => {
    const it = await world({ 'out/a.txt': 'old\n' }, { include: ['docs/**'] })
    const run = await it.run({ move: file({ operation: 'move', path: 'out/a.txt', to: 'docs/a.txt' }) })
    put(it.root, { 'out/a.txt': 'theirs\n' })
    const { status, left } = await it.rollback(run.run_id)
    expect([it.text('out/a.txt'), it.text('docs/a.txt')]).toEqual(['theirs\n', 'old\n'])
    expect([status, left.map(({ name }) => name).sort()]).toEqual(['incomplete', ['docs/a.txt', 'out/a.txt']])
    rmSync(join(it.root, 'out/a.txt'))
    await it.rollback(run.run_id, { signal: AbortSignal.abort() })
    expect(it.text('docs/a.txt')).toBe('old\n')
    expect((await it.rollback(run.run_id)).status).toBe('done')
    expect([it.text('out/a.txt'), it.text('docs/a.txt')]).toEqual(['old\n', undefined])
    await it.close()
  })

  it('names the files that lie there as the run left them though the graph has gone back alone', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { revision } = it.graph
    const run = await it.run(THREE)
    await it.graph.restore({ to: revision, ...BY })
    const { status, left } = await it.rollback(run.run_id)
    expect([status, left.map(({ name }) => name).sort()]).toEqual(['incomplete', ['a.txt', 'c.txt', 'new/b.txt']])
    await it.tracker.scan()
    await it.tracker.reconcile('all', 'graph')
    expect([it.text('a.txt'), it.text('c.txt'), it.text('new/b.txt')]).toEqual(['old\n', 'c\n', undefined])
    expect((await it.rollback(run.run_id)).status).toBe('nothing')
    await it.close()
  })

  it('leaves a file that it may not read, says so, and takes the others back', async () => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'b\n' })
    const run = await it.run(
      chain({
        a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        b: file({ operation: 'write', path: 'b.txt', content: 'run\n' }),
      }),
    )
    const { open } = disk
    const denied = Object.assign(new Error('permission denied'), { code: 'EACCES' }) // the superuser is never told that
    disk.open = ((...asked: Parameters<typeof open>) =>
      String(asked[0]).endsWith('/a.txt') ? Promise.reject(denied) : open(...asked)) as typeof open
    try {
      const { status, left } = await it.rollback(run.run_id)
      expect([status, left.map(({ name }) => name)]).toEqual(['incomplete', ['a.txt']])
    } finally {
      disk.open = open
    }
    expect([it.text('a.txt'), it.text('b.txt')]).toEqual(['run\n', 'b\n'])
    await it.close()
  })

  it('leaves what the ignore rules have come to keep out, and says so', async () => {
    const it = await world({})
    const run = await it.run({ log: file({ operation: 'write', path: 'x.log', content: 'run\n' }) })
    put(it.root, { '.gitignore': '*.log\n' })
    await it.tracker.scan()
    const { left } = await it.rollback(run.run_id)
    expect(left.map(({ what, name }) => [what, name])).toEqual([['file', 'x.log']])
    expect(it.text('x.log')).toBe('run\n')
    await it.close()
  })

  it('asks before it leaves something that cannot be undone, and goes on when people agree', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run(
      chain({
        sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } },
        write: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
      }),
    )
    const asked = await it.rollback(run.run_id)
    expect([asked.status, it.text('a.txt')]).toEqual(['waiting', 'run\n'])
    expect((await it.rollback(run.run_id)).confirm_id).toBe(asked.confirm_id)
    await it.runtime.decide(asked.confirm_id!, { status: 'approved', decided_by_role: 'owner' })
    const report = await it.rollback(run.run_id)
    expect([report.status, it.text('a.txt')]).toEqual(['incomplete', 'old\n'])
    expect(report.left).toEqual([{ what: 'effect', name: expect.any(String), reason: 'it cannot be undone' }])
    await it.close()
  })

  it.each([
    ['does not ask once more about the rest of what people agreed to', 'run\n', 'incomplete'],
    ['asks anew when something has come that people were not shown', 'theirs\n', 'waiting'],
  ])('%s, when it was cut off', async (_, content, status) => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run(
      chain({
        sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } },
        first: effect('first'),
        second: effect('second'),
        write: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
      }),
    )
    const { confirm_id } = await it.rollback(run.run_id)
    await it.runtime.decide(confirm_id!, { status: 'approved', decided_by_role: 'owner' })
    const { store } = it.graph
    const commit = store.commit.bind(store)
    for (const calls of [2, 3]) {
      store.commit = (write) =>
        it.calls.length === calls ? Promise.reject(new Unavailable('the store', 'wait')) : commit(write)
      await expect(it.rollback(run.run_id)).rejects.toThrow(Unavailable)
      store.commit = commit
    }
    expect(it.calls).toEqual(['second', 'first', 'first'])
    put(it.root, { 'a.txt': content })
    const report = await it.rollback(run.run_id)
    expect(report.status).toBe(status)
    expect(it.text('a.txt')).toBe(status === 'waiting' ? 'theirs\n' : 'old\n')
    expect(await it.runtime.waiting()).toHaveLength(status === 'waiting' ? 1 : 0)
    expect(await it.graph.verify()).toEqual([])
    await it.close()
  })

  const sendsAndWrites = () =>
    chain({
      sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } },
      write: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
      other: file({ operation: 'write', path: 'b.txt', content: 'run\n' }),
    })

  it.each<[string, RollbackOptions, boolean]>([
    ['nobody wants to be asked any more', { irreversible: 'leave' }, false],
    ['somebody has changed something, and it asks anew', {}, true],
  ])('withdraws its question when %s', async (_, options, asksAnew) => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'old\n' })
    const run = await it.run(sendsAndWrites())
    const { confirm_id } = await it.rollback(run.run_id)
    put(it.root, { 'b.txt': 'theirs\n' })
    const again = await it.rollback(run.run_id, options)
    expect((await it.graph.document('confirm', confirm_id!)).status).toBe('cancelled')
    const waiting = (await it.runtime.waiting()).map(({ confirm }) => confirm.confirm_id)
    expect(waiting).toEqual(asksAnew ? [again.confirm_id] : [])
    expect(await it.graph.verify()).toEqual([])
    await it.close()
  })

  it('asks anew about what a question was withdrawn for', async () => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'old\n' })
    const run = await it.run(sendsAndWrites())
    const first = await it.rollback(run.run_id)
    put(it.root, { 'b.txt': 'theirs\n' })
    await it.rollback(run.run_id)
    put(it.root, { 'b.txt': 'run\n' })
    const again = await it.rollback(run.run_id)
    expect(again.plan.digest).toBe(first.plan.digest)
    expect([again.status, it.text('a.txt')]).toEqual(['waiting', 'run\n'])
    await it.close()
  })

  it('asks again before it tries in vain once more', async () => {
    const it = await world({})
    it.layer.register({ action_type: 'unmake', executor_kind: 'worker', execute: async () => ({}) })
    const run = await it.run(
      chain({
        sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } },
        made: { call: 'effect', binding: { inverse: { action_type: 'unmake', params: {} } } },
      }),
    )
    await it.layer.unregister('unmake')
    const { confirm_id, plan } = await it.rollback(run.run_id)
    await it.runtime.decide(confirm_id!, { status: 'approved', decided_by_role: 'owner' })
    expect((await it.rollback(run.run_id)).status).toBe('incomplete')
    const again = await it.rollback(run.run_id)
    expect(again.plan.digest).toBe(plan.digest)
    expect(again.status).toBe('waiting')
    await it.close()
  })

  it('does nothing when people say no', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const run = await it.run(
      chain({
        sent: { call: 'effect', binding: { inverse: 'irreversible', approval: 'none' } },
        write: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
      }),
    )
    const { confirm_id } = await it.rollback(run.run_id)
    await it.runtime.decide(confirm_id!, { status: 'rejected', decided_by_role: 'owner' })
    expect((await it.rollback(run.run_id)).status).toBe('incomplete')
    expect(it.text('a.txt')).toBe('run\n')
    await it.close()
  })

  it('takes files that nobody tracks back by the inverse of what wrote them', async () => {
    const it = await world({ 'a.txt': 'old\n' }, { include: ['docs/**'] })
    const run = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }) })
    const report = await it.rollback(run.run_id)
    expect([report.status, report.files, it.text('a.txt')]).toEqual(['done', [], 'old\n'])
    await it.close()
  })

  it('says first of files that nobody tracks what it then does, and what somebody else did to them', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'old\n', 'd.txt': 'old\n' }, { include: ['docs/**'] })
    const run = await it.run(
      chain({
        once: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        twice: file({ operation: 'write', path: 'a.txt', content: 'run again\n' }),
        changed: file({ operation: 'write', path: 'new/b.txt', content: 'run\n' }),
        back: file({ operation: 'write', path: 'c.txt', content: 'run\n' }),
        moved: file({ operation: 'move', path: 'd.txt', to: 'e.txt' }),
      }),
    )
    put(it.root, { 'new/b.txt': 'mine\n', 'c.txt': 'old\n', 'd.txt': 'mine\n' })
    const planned = await it.rollback(run.run_id, { dryRun: true })
    const steps = planned.plan.effects.map(({ step_id }) => step_id)
    expect(steps).toEqual([run.ids.twice, run.ids.once]) // the second finds what the first has brought back
    const reason = 'somebody else changed it on the disk since'
    expect(planned.left).toEqual([
      { what: 'file', name: 'd.txt', reason },
      { what: 'file', name: 'new/b.txt', reason },
    ])
    const report = await it.rollback(run.run_id)
    expect(report.status).toBe('incomplete')
    expect(report.left).toEqual(planned.left)
    expect(report.effects.map(({ step_id, status }) => [step_id, status])).toEqual(steps.map((id) => [id, 'undone']))
    expect(['a.txt', 'new/b.txt', 'c.txt', 'd.txt'].map(it.text)).toEqual(['old\n', 'mine\n', 'old\n', 'mine\n'])
    await it.close()
  })

  it.each<[string, { readonly [name: string]: StepSpec }]>([
    [
      'written twice',
      {
        once: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        twice: file({ operation: 'write', path: 'a.txt', content: 'run again\n' }),
      },
    ],
    [
      'deleted and made anew',
      {
        remove: file({ operation: 'delete', path: 'a.txt' }),
        create: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
      },
    ],
    [
      'changed and moved',
      {
        change: file({ operation: 'write', path: 'a.txt', content: 'run\n' }),
        move: file({ operation: 'move', path: 'a.txt', to: 'b.txt' }),
      },
    ],
  ])('takes a file that nobody tracks and that was %s back also when it was cut off in between', async (_, steps) => {
    const it = await world({ 'a.txt': 'old\n' }, { include: ['docs/**'] })
    const run = await it.run(chain(steps))
    const { store } = it.graph
    const commit = store.commit.bind(store)
    store.commit = (write) =>
      JSON.stringify(write.entry).includes('execution_completed')
        ? Promise.reject(new Unavailable('the store', 'wait'))
        : commit(write)
    await expect(it.rollback(run.run_id)).rejects.toThrow(Unavailable)
    store.commit = commit
    expect(await it.rollback(run.run_id)).toMatchObject({
      status: 'done',
      left: [],
      effects: [{ status: 'undone' }, { status: 'undone' }],
    })
    expect([it.text('a.txt'), it.text('b.txt')]).toEqual(['old\n', undefined])
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'nothing', left: [] })
    expect(await it.graph.verify()).toEqual([])
    await it.close()
  })

  it('leaves a file that it has brought back, where what was done to it later was gone already', async () => {
    const it = await world({ 'a.txt': 'old\n' }, { include: [] })
    const run = await it.run(
      chain({
        remove: file({ operation: 'delete', path: 'a.txt' }),
        again: file({ operation: 'write', path: 'a.txt', content: 'old\n' }),
      }),
    )
    rmSync(join(it.root, 'a.txt'))
    expect(await it.rollback(run.run_id)).toMatchObject({ status: 'done', left: [] })
    expect([(await it.rollback(run.run_id)).status, it.text('a.txt')]).toEqual(['nothing', 'old\n'])
    await it.close()
  })

  it('names a file that nobody tracks and that another way back makes room for meanwhile, and takes it back the next time', async () => {
    const it = await world({ 'a.txt': 'old\n' }, { include: ['docs/**'] })
    const first = await it.run(
      chain({ slow: effect('slow'), a: file({ operation: 'write', path: 'a.txt', content: 'one\n' }) }),
    )
    const second = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'two\n' }) })
    const { attempt } = it.layer
    const layer: ActionLayer = {
      ...it.layer,
      async attempt(...asked) {
        expect((await it.rollback(second.run_id)).status).toBe('done')
        return attempt(...asked)
      },
    }
    const report = await rollback({ graph: it.graph, layer, tracker: it.tracker }, first.run_id)
    const { action_id } = it.graph.get('action', report.left[0]!.name)!.data
    const left = { what: 'effect', name: action_id, reason: 'it can be taken back only since: call again' }
    expect([report.status, report.left, it.text('a.txt')]).toEqual(['incomplete', [left], 'one\n'])
    const next = await it.rollback(first.run_id)
    expect([next.status, next.effects.length, it.text('a.txt')]).toEqual(['done', 1, 'old\n'])
    await it.close()
  })

  it('says first of a file that nobody tracks what would keep it from being taken back', async () => {
    const it = await world({}, { include: ['docs/**'] })
    const run = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'run\n' }) })
    rmSync(join(it.root, 'a.txt'))
    symlinkSync('b.txt', join(it.root, 'a.txt'))
    const planned = await it.rollback(run.run_id, { dryRun: true })
    expect(planned.plan.effects).toEqual([])
    expect(planned.left).toEqual([{ what: 'file', name: 'a.txt', reason: 'a.txt is a link' }])
    expect((await it.rollback(run.run_id)).left).toEqual(planned.left)
    await it.close()
  })

  it('takes back only what its run did', async () => {
    const it = await world({ 'a.txt': 'old\n', 'b.txt': 'b\n' })
    const first = await it.run({ a: file({ operation: 'write', path: 'a.txt', content: 'first\n' }) })
    await it.run({ b: file({ operation: 'write', path: 'b.txt', content: 'second\n' }) })
    await it.rollback(first.run_id)
    expect([it.text('a.txt'), it.text('b.txt')]).toEqual(['old\n', 'second\n'])
    await it.close()
  })

  it('does not take what another run did for a change of its files once that was taken back', async () => {
    const it = await world({ 'a.txt': 'old\n', 'gone.txt': 'gone\n' })
    const write = (content: string) => file({ operation: 'write', path: 'a.txt', content })
    const create = (content: string) => file({ operation: 'write', path: 'new.txt', content })
    const first = await it.run(
      chain({ a: write('first\n'), b: create('first\n'), c: file({ operation: 'delete', path: 'gone.txt' }) }),
    )
    const second = await it.run(
      chain({
        a: write('second\n'),
        b: file({ operation: 'delete', path: 'new.txt' }),
        c: file({ operation: 'write', path: 'gone.txt', content: 'second\n' }),
      }),
    )
    const tooEarly = await it.rollback(first.run_id, { dryRun: true })
    expect(tooEarly.plan.conflicts.map(({ name }) => name).sort()).toEqual(['a.txt', 'gone.txt'])
    for (const { run_id } of [second, first])
      expect(await it.rollback(run_id)).toMatchObject({ status: 'done', left: [] })
    expect([it.text('a.txt'), it.text('new.txt'), it.text('gone.txt')]).toEqual(['old\n', undefined, 'gone\n'])
    expect((await it.tracker.scan()).findings).toEqual([])
    await it.close()
  })

  it('has nothing to do the second time about a file that was written twice, moved or made for a while', async () => {
    const it = await world({ 'a.txt': 'old\n', 'c.txt': 'c\n' })
    const { run_id } = await it.run(
      chain({
        first: file({ operation: 'write', path: 'a.txt', content: 'one\n' }),
        second: file({ operation: 'write', path: 'a.txt', content: 'two\n' }),
        move: file({ operation: 'move', path: 'c.txt', to: 'd.txt' }),
        change: file({ operation: 'write', path: 'd.txt', content: 'changed\n' }),
        create: file({ operation: 'write', path: 'tmp.txt', content: 'for a while\n' }),
        remove: file({ operation: 'delete', path: 'tmp.txt' }),
      }),
    )
    expect(await it.rollback(run_id)).toMatchObject({ status: 'done', effects: [], left: [] })
    expect(['a.txt', 'c.txt', 'd.txt', 'tmp.txt'].map(it.text)).toEqual(['old\n', 'c\n', undefined, undefined])
    expect(await it.rollback(run_id)).toMatchObject({ status: 'nothing', left: [] })
    await it.close()
  })

  it('leaves a file gone that somebody else has deleted since, and names it', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const { run_id } = await it.run(
      chain({
        remove: file({ operation: 'delete', path: 'a.txt' }),
        create: file({ operation: 'write', path: 'a.txt', content: 'new\n' }),
      }),
    )
    await it.run({ remove: file({ operation: 'delete', path: 'a.txt' }) })
    const { status, left } = await it.rollback(run_id)
    expect([status, left.map(({ what, name }) => `${what} ${name}`)]).toEqual(['incomplete', ['file a.txt']])
    expect(it.text('a.txt')).toBeUndefined()
    await it.close()
  })

  it('goes past a later run that wrote the same once more, when that has been taken back', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const same = { write: file({ operation: 'write', path: 'a.txt', content: 'new\n' }) }
    const [first, second] = [await it.run(same), await it.run(same)]
    expect((await it.rollback(first.run_id)).left).toMatchObject([{ what: 'file', name: 'a.txt' }])
    expect((await it.rollback(second.run_id)).status).toBe('done')
    expect(it.text('a.txt')).toBe('new\n')
    expect((await it.rollback(first.run_id)).status).toBe('done')
    expect(it.text('a.txt')).toBe('old\n')
    expect((await it.rollback(second.run_id)).status).toBe('nothing')
    await it.close()
  })

  it('puts a file back where the run has made a folder, unless others have put something into it', async () => {
    const it = await world({ name: 'a file\n' })
    const first = await it.run(
      chain({
        remove: file({ operation: 'delete', path: 'name' }),
        create: file({ operation: 'write', path: 'name/inside.txt', content: 'in a folder\n' }),
      }),
    )
    const second = await it.run({ create: file({ operation: 'write', path: 'name/other.txt', content: 'other\n' }) })
    expect((await it.rollback(first.run_id)).left).toMatchObject([{ what: 'file', name: 'name' }])
    expect(it.text('name/other.txt')).toBe('other\n')
    expect((await it.tracker.scan()).findings).toEqual([])
    expect((await it.rollback(second.run_id)).status).toBe('done')
    expect((await it.rollback(first.run_id)).status).toBe('done')
    expect(it.text('name')).toBe('a file\n')
    expect((await it.tracker.scan()).findings).toEqual([])
    await it.close()
  })

  it('is not complete where somebody else has changed all that there was, and has nothing to do where it had been', async () => {
    const it = await world({ 'a.txt': 'old\n' })
    const write = (content: string) => ({ write: file({ operation: 'write', path: 'a.txt', content }) })
    const [first, second] = [await it.run(write('first\n')), await it.run(write('second\n'))]
    expect(await it.rollback(first.run_id)).toMatchObject({ status: 'incomplete', left: [{ name: 'a.txt' }] })
    for (const { run_id } of [second, first]) expect((await it.rollback(run_id)).status).toBe('done')
    await it.run(write('third\n'))
    for (const { run_id } of [second, first])
      expect(await it.rollback(run_id)).toMatchObject({ status: 'nothing', left: [] })
    expect(it.text('a.txt')).toBe('third\n')
    await it.close()
  })

  it('refuses a run that it does not know, one that goes on, and one that somebody else is taking back', async () => {
    const it = await world({})
    await expect(it.rollback(systemClock.uuid())).rejects.toThrow(NotFound)
    const flow = flowOf({ wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
    const waiting = await it.runtime.submit({
      ...flow,
      context: it.graph.id,
      plan: { ...flow.plan, context_id: it.graph.id },
    })
    await expect(it.rollback(waiting.run_id)).rejects.toThrow(InvalidInput)
    const run = await it.run({ a: effect('a') })
    await it.graph.store.acquire(`rollback/${run.run_id}`, thisHolder('another'), 60_000)
    await expect(it.rollback(run.run_id)).rejects.toThrow(Refused)
    await it.runtime.cancel(waiting.run_id)
    await it.close()
  })
})
