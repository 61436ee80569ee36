import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { Hands } from '../../src/ael/layer.ts'
import { toolAdapter } from '../../src/ael/tool.ts'
import { toolRegistry } from '../../src/ael/tool-registry.ts'
import { exportPack } from '../../src/golden/pack.ts'
import { verifyPack } from '../../src/golden/verify-pack.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Flow } from '../../src/orchestrator/submit.ts'
import { trim } from '../../src/orchestrator/trim.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { InvalidInput, NotFound, Refused, TooLarge } from '../../src/protocol/errors.ts'
import type { JsonObject } from '../../src/protocol/json.ts'
import { takeApart } from '../../src/psg/document.ts'
import { openProject } from '../../src/psg/project.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collect } from '../contracts/backend/given.ts'
import { ran, SOON } from '../orchestrator/ended-contexts.ts'
import { collabDocument, contextDocument, planDocument, roleDocument } from '../support/agents.ts'
import { faultyBackend } from '../support/faulty-backend.ts'
import { chainOf, flowOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

const admissible = ({ root }: { root: string }) => ({
  outcome: 'ADMISSIBLE',
  findings: [],
  guarantees: { 'LG-01': true, 'LG-02': true, 'LG-03': true, 'LG-04': true, 'LG-05': true },
  root,
})

/** Runs a flow to its end, cancelled once its first step hangs if it does, and packs what is left of it. */
async function packOf(flow: Flow) {
  let hangs: () => void = () => undefined
  const hanging = new Promise<void>((resolve) => {
    hangs = resolve
  })
  const functions = functionAdapter({
    noop: () => null,
    hang: (_, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
        hangs()
      }),
    fail: () => {
      throw new Error('broken')
    },
  })
  const runtime = await runtimeOf({}, { layer: (hands) => actionLayer({ ...hands, adapters: [functions] }) })
  const run = await runtime.submit(flow)
  const { status } = await Promise.race([run.result(), hanging.then(() => run.cancel()).then(() => run.result())])
  const folder = tempFolder()
  const pack = await exportPack(runtime.project, run.plan_id, folder)
  await runtime.close()
  const { pointers } = JSON.parse(await readFile(join(folder, 'evidence_pointers.json'), 'utf8'))
  const present = (pointers as JsonObject[]).filter((pointer) => pointer.status === 'PRESENT')
  return { folder, pack, run, status, shows: present.map(({ requirement_id }) => requirement_id) }
}

async function timeline(folder: string): Promise<readonly JsonObject[]> {
  const text = await readFile(join(folder, 'pack/timeline/events.ndjson'), 'utf8')
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const artifact = async (folder: string, name: string): Promise<JsonObject> =>
  JSON.parse(await readFile(join(folder, `pack/artifacts/${name}.json`), 'utf8'))

describe('an evidence pack', () => {
  it('of an executed run is admissible, and shows no decision to end it', async () => {
    const { folder, pack, status, shows } = await packOf(chainOf(3))
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    expect(pack.events).toBeGreaterThan(10)
    expect({ status, shows }).toEqual({ status: 'completed', shows: ['RQ-D2-01', 'RQ-D3-01'] })
  })

  it('of a cancelled run points at the decisions that really happened', async () => {
    const { folder, pack, status, shows } = await packOf(flowOf({ hang: {}, next: { after: ['hang'], call: 'noop' } }))
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    expect({ status, shows }).toEqual({ status: 'cancelled', shows: ['RQ-D2-01', 'RQ-D3-01', 'RQ-D4-01'] })
  })

  it('of a run that was warned about its budget and then cancelled shows all four', async () => {
    const { folder, pack, shows } = await packOf(
      flowOf(
        { first: { call: 'noop' }, hang: { after: ['first'] } },
        { options: { budget: { actions: 3, warn_at: 0.3 } } },
      ),
    )
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    expect(shows).toEqual(['RQ-D1-01', 'RQ-D2-01', 'RQ-D3-01', 'RQ-D4-01'])
  })

  it('tells what has happened by now, also where somebody looked at the run before it had ended', async () => {
    const runtime = await runtimeOf({})
    const elsewhere = await openProject(runtime.project.store)
    const run = await runtime.submit(chainOf(1, { approval: {} }))
    await (await elsewhere.context(run.context_id)).load(run.plan_id)
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    await run.result()
    const folder = tempFolder()
    await exportPack(elsewhere, run.run_id, folder)
    expect(await artifact(folder, 'plan')).toMatchObject({ status: 'completed' })
    await runtime.close()
  })

  it('of a failed run is admissible', async () => {
    const { folder, pack, status } = await packOf(flowOf({ fail: {}, next: { after: ['fail'], call: 'noop' } }))
    expect(status).toBe('failed')
    expect(await verifyPack(folder)).toEqual(admissible(pack))
  })

  it('tells the context as it was when the run ended, also once it was archived', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await run.result()
    const graph = await runtime.project.context(run.context_id)
    for (const set of [{ title: 'Another' }, { status: 'archived' }] as const)
      await graph.commit([{ kind: 'node_update', node: 'context', id: graph.id, set }], {
        actor: 'test',
        reason: 'later',
      })
    const folder = tempFolder()
    const pack = await exportPack(runtime.project, run.plan_id, folder)
    await runtime.close()
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    const { title, status } = JSON.parse(await readFile(join(folder, 'pack/artifacts/context.json'), 'utf8'))
    expect({ status, isAnother: title === 'Another' }).toEqual({ status: 'active', isAnother: false })
  })

  it('has the trace of a way back too, so that whatever was asked about it resolves', async () => {
    const layer = actionLayer({ adapters: [functionAdapter({ noop: () => null, undo: () => null })] })
    const runtime = await runtimeOf({}, { layer })
    const inverse = { action_type: 'function', params: { name: 'undo' } }
    const { context_id, plan_id, run_id, trace_id, result } = await runtime.submit(
      flowOf({ noop: { binding: { inverse } } }),
    )
    await result()
    const back = await rollback({ graph: await runtime.project.context(context_id), layer }, run_id)
    const silent = await runtime.call('trace', { intent: 'begin', context_id, plan_id }) // tells nothing
    for (const target_id of [String(silent.trace_id), back.trace_id!])
      await runtime.call('confirm', { intent: 'request', target_type: 'trace', target_id })
    const folder = tempFolder()
    const pack = await exportPack(runtime.project, plan_id, folder)
    await runtime.close()
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    expect([(await artifact(folder, 'trace')).trace_id, (await artifact(folder, 'trace-2')).trace_id]).toEqual([
      trace_id,
      back.trace_id,
    ])
    expect((await artifact(folder, 'confirm-2')).target_id).toBe(back.trace_id)
    for (const none of ['trace-3', 'confirm-3']) await expect(artifact(folder, none)).rejects.toThrow('ENOENT')
  })

  it('tells nothing that executes behind the end of the plan', async () => {
    for (const flow of [chainOf(2), flowOf({ hang: {} }), flowOf({ fail: {} })]) {
      const events = await timeline((await packOf(flow)).folder)
      const end = events.findIndex(({ to_state }) => to_state !== undefined)
      expect(end).toBeGreaterThan(0)
      expect(events.slice(end + 1).map(({ event_family }) => event_family)).toEqual(['graph_update'])
    }
  })

  it('tells what came from outside before the end of the plan, and not what came after it', async () => {
    const brought = (tool_id: string) =>
      ({ tool_id, tool_kind: 'linter', invocation_id: systemClock.uuid(), status: 'succeeded' }) as const
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1, { approval: {} }))
    await runtime.ingest(run.context_id, 'tool-event', brought('before'))
    const [question] = await runtime.waiting()
    await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'me' })
    await run.result()
    await runtime.ingest(run.context_id, 'tool-event', brought('after'))
    const graph = await runtime.project.context(run.context_id)
    await graph.snapshot('since', { actor: 'test', reason: 'test' })
    const folder = tempFolder()
    const pack = await exportPack(runtime.project, run.plan_id, folder)
    await runtime.close()
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    const events = await timeline(folder)
    const tools = events.filter(({ event_type }) => event_type === 'tool_execution')
    expect(tools).toMatchObject([{ payload: { tool_id: 'before' } }])
    expect(events.at(-1)).toMatchObject({ event_type: 'snapshot_taken' })
  })

  it('of a run with a tool has its call and its result in the trace, with data', async () => {
    const tools = toolRegistry()
    tools.register({ name: 'math.add', description: 'Adds', input: { type: 'object' }, execute: () => 3 })
    const layer = (hands: Hands) => actionLayer({ ...hands, adapters: [toolAdapter(tools)] })
    const runtime = await runtimeOf({}, { layer })
    const call = { action_type: 'tool_call', params: { tool_name: 'math.add', tool_args: {} } }
    const run = await runtime.submit(flowOf({ add: { binding: call } }))
    expect(await run.result()).toMatchObject({ status: 'completed' })
    const folder = tempFolder()
    const pack = await exportPack(runtime.project, run.plan_id, folder)
    await runtime.close()
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    const { events } = JSON.parse(await readFile(join(folder, 'pack/artifacts/trace.json'), 'utf8'))
    const told = (events as JsonObject[]).filter(({ event_type }) => String(event_type).startsWith('tool.'))
    expect(told).toEqual([
      expect.objectContaining({ event_type: 'tool.call', data: expect.any(Object) }),
      expect.objectContaining({ event_type: 'tool.result', data: expect.any(Object) }),
    ])
  })

  it('says of each snapshot which modules had something in it', async () => {
    const runtime = await runtimeOf({})
    const context = contextDocument()
    const by = { actor: 'test', reason: 'test' }
    const graph = await runtime.project.create(context, by)
    await graph.snapshot('a context alone', by)
    const plan = planDocument(context, { one: {} })
    const run = await runtime.submit({
      context: graph.id,
      plan,
      bindings: { steps: { [plan.steps[0]!.step_id]: { action_type: 'function', params: { name: 'noop' } } } },
    })
    expect(await run.result()).toMatchObject({ status: 'completed' })
    await graph.snapshot('with a run', by)
    await runtime.project.import(
      [['collab', collabDocument(context, 'round_robin', ['ann:planner', 'bob:planner'])]],
      by,
    )
    await graph.snapshot('with a session', by)
    const folder = tempFolder()
    const pack = await exportPack(runtime.project, run.plan_id, folder)
    await runtime.close()
    const index = JSON.parse(await readFile(join(folder, 'pack/snapshots/index.json'), 'utf8')) as JsonObject[]
    expect(index.map(({ modules_captured }) => modules_captured)).toEqual([
      ['context'],
      ['context', 'plan', 'confirm', 'trace'],
      ['context', 'plan', 'confirm', 'trace', 'collab'],
    ])
    expect(await verifyPack(folder)).toEqual(admissible(pack))
  })

  it('holds the session of a run and its roles, also when another process packs it', async () => {
    const runtime = await runtimeOf({})
    const context = contextDocument()
    const collab = collabDocument(context, 'round_robin', ['ann:planner', 'bob:planner'])
    const plan = planDocument(context, { one: {}, two: { after: ['one'] } })
    const documents = [
      ['context', context] as const,
      ['role', roleDocument('planner')] as const,
      ['collab', collab] as const,
    ]
    await runtime.project.import(documents, { actor: 'test', reason: 'a session' })
    const steps = Object.fromEntries(
      plan.steps.map(({ step_id }) => [step_id, { action_type: 'function', params: { name: 'noop' } }]),
    )
    const session = { collab_id: collab.collab_id }
    const options = { profile: 'map' as const, session }
    const run = await runtime.submit({ context: context.context_id, plan, bindings: { steps }, options })
    expect(await run.result()).toMatchObject({ status: 'completed' })
    await runtime.close()
    const folder = tempFolder()
    const { files } = await exportPack(await openProject(runtime.store), run.plan_id, folder)
    expect(files).toEqual(expect.arrayContaining(['artifacts/collab.json', 'artifacts/role.json']))
    expect((await verifyPack(folder)).findings).toEqual([])
  })

  it('is written without what was deleted in its context', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await run.result()
    const by = { actor: 'test', reason: 'test' }
    const graph = await runtime.project.context(run.context_id)
    const { meta } = contextDocument()
    const [gone, there] = [systemClock.uuid(), systemClock.uuid()]
    for (const dialog_id of [gone, there]) {
      const dialog = { meta, dialog_id, context_id: graph.id, status: 'active', messages: [] }
      await graph.commit(takeApart('dialog', dialog), by)
    }
    await graph.commit([{ kind: 'node_delete', node: 'dialog', id: gone }], by)
    const folder = tempFolder()
    const pack = await exportPack(await openProject(runtime.store), run.plan_id, folder)
    await runtime.close()
    expect(await verifyPack(folder)).toEqual(admissible(pack))
    expect(await artifact(folder, 'dialog')).toMatchObject({ dialog_id: there })
    await expect(artifact(folder, 'dialog-2')).rejects.toThrow('ENOENT')
  })

  it('is found by the id of the run, of its plan and of its trace', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await run.result()
    for (const id of [run.run_id, run.plan_id, run.trace_id]) {
      const folder = tempFolder()
      await exportPack(runtime.project, id, folder)
      expect((await verifyPack(folder)).outcome).toBe('ADMISSIBLE')
    }
    await runtime.close()
  })

  it('is not written without what a trim takes away meanwhile, whenever that is', async () => {
    for (let at = 0; ; at++) {
      const inner = memoryBackend()
      await ran(inner)
      const [plan] = await collect(inner.scan('id/plan/', { limit: 1 }))
      let calls = Number.NEGATIVE_INFINITY
      const trims = async () => void (await trim(inner, SOON))
      const store = faultyBackend(inner, () => (calls++ === at ? 1 : undefined), { sleep: trims })
      const [project, folder] = [await openProject(store), tempFolder()]
      calls = 0
      const written = exportPack(project, plan![0].slice('id/plan/'.length), folder).then(
        async () => (await verifyPack(folder)).outcome,
        (error) => error,
      )
      const outcome = await written
      expect(outcome, `at call ${at}`).toEqual(calls > at ? expect.any(NotFound) : 'ADMISSIBLE')
      if (calls <= at) break
    }
  })

  it('is not written over another, nor for a run that is not there', async () => {
    const { folder, run } = await packOf(chainOf(1))
    const runtime = await runtimeOf({})
    await expect(exportPack(runtime.project, run.plan_id, folder)).rejects.toThrow(NotFound)
    const again = await runtime.submit(chainOf(1))
    await again.result()
    await expect(exportPack(runtime.project, again.plan_id, folder)).rejects.toThrow(Refused)
    await runtime.close()
  })

  it.each([
    ['too large', { dialogs: 2, letters: 27 * 1024 * 1024 }, TooLarge],
    ['of too many files', { dialogs: 1_000, letters: 1 }, Refused],
  ])('is not written when it would be %s to be admitted', async (_, { dialogs, letters }, refusal) => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await run.result()
    const { meta } = contextDocument()
    const messages = [{ role: 'user' as const, content: 'x'.repeat(letters), timestamp: '2026-01-01T00:00:00.000Z' }]
    for (let i = 0; i < dialogs; i++) {
      const dialog = { meta, dialog_id: systemClock.uuid(), context_id: run.context_id, status: 'active', messages }
      await runtime.project.import([['dialog', dialog]], { actor: 'test', reason: 'test' })
    }
    const folder = tempFolder()
    await expect(exportPack(runtime.project, run.plan_id, folder)).rejects.toThrow(refusal)
    expect(await readdir(folder)).toEqual([])
    await runtime.close()
  })

  it.each([undefined, null, 5, ''])('is neither written to nor looked for in %o', async (folder) => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await expect(exportPack(runtime.project, run.plan_id, folder as string)).rejects.toThrow(InvalidInput)
    await expect(verifyPack(folder as string)).rejects.toThrow(InvalidInput)
    await runtime.close()
  })

  it('is not written for a project or a scenario that is none', async () => {
    const runtime = await runtimeOf({})
    const run = await runtime.submit(chainOf(1))
    await run.result()
    const folder = tempFolder()
    await expect(exportPack({} as never, run.plan_id, folder)).rejects.toThrow(InvalidInput)
    for (const options of [null, { scenario: '' }, { scenario: {} }, { scenaro: 'x' }])
      await expect(exportPack(runtime.project, run.plan_id, folder, options as never)).rejects.toThrow(InvalidInput)
    expect(await readdir(folder)).toEqual([])
    await runtime.close()
  })

  it.each(['evidence_pointers.json', 'pack/notes.txt', 'pack/timeline/events.ndjson'])(
    'is refused where %s lies, and leaves nothing behind',
    async (path) => {
      const runtime = await runtimeOf({})
      const run = await runtime.submit(chainOf(1))
      await run.result()
      const folder = tempFolder()
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), 'mine')
      const before = await readdir(folder, { recursive: true })
      await expect(exportPack(runtime.project, run.plan_id, folder)).rejects.toThrow(Refused)
      expect(await readdir(folder, { recursive: true })).toEqual(before)
      await runtime.close()
    },
  )
})
