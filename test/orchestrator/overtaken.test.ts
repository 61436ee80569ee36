import { expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import { createRuntime, type Runtime } from '../../src/orchestrator/runtime.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { RevisionConflict } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { pathsOf } from '../../src/psg/paths.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { contextOf, put } from '../drift/given.ts'
import { chainOf, flowOf, having, runtimeOf } from '../support/flows.ts'
import { overtaken } from '../support/overtaken.ts'
import { tempFolder } from '../support/temp-folder.ts'

const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } } as const

/** A run that waits for a signal, a plan that waits for a person, and a second process on their store that others overtake at every turn. */
async function given(times?: number) {
  const store = memoryBackend()
  const owner = await runtimeOf({}, { store })
  onTestFinished(() => owner.close())
  const run = await owner.submit(flowOf({ wait }))
  const asking = chainOf(1, { approval: {} })
  const { context_id } = run
  await owner.submit({ ...asking, context: context_id, plan: { ...asking.plan, context_id } })
  const rival = await owner.project.context(context_id)
  const layer = actionLayer({ adapters: [] })
  const other = await createRuntime({ store: overtaken(store, rival, times), layer, mine: new Set() })
  onTestFinished(() => other.close())
  const [asked] = await owner.waiting()
  return { owner, other, run, context: context_id, confirm: asked!.confirm.confirm_id }
}
type Given = Awaited<ReturnType<typeof given>>

const by = { actor: 'somebody', reason: 'wants it' }
const WISHES: readonly [string, (other: Runtime, it: Given) => Promise<unknown>][] = [
  ['a cancel', (other, { run }) => other.cancel(run.run_id)],
  ['a pause', (other, { run }) => other.pause(run.run_id)],
  ['a signal', (other, { run }) => other.signal(run.run_id, 'go')],
  ['a decision', (other, { confirm }) => other.decide(confirm, { status: 'approved', decided_by_role: 'boss' })],
  [
    'a flow',
    (other, { context }) => {
      const flow = flowOf({ wait })
      return other.submit({ ...flow, context, plan: { ...flow.plan, context_id: context } })
    },
  ],
  ['an event from outside', (other, { context }) => other.ingest(context, 'ci-event', CI)],
  ['an intent', (other, { context }) => other.call('context', { intent: 'update', context_id: context, title: 'New' })],
  ['a snapshot', async (other, { context }) => (await other.project.context(context)).snapshot('now', by)],
  ['a fork', async (other, { run, context }) => (await other.project.context(context)).fork(run.plan_id, by)],
  [
    'a document',
    (other, { context }) => {
      const { plan } = chainOf(1)
      return pathsOf(other.project).postPlan({ ...plan, context_id: context }, by)
    },
  ],
]
const CI = { ci_provider: 'ours', pipeline_id: 'p', run_id: 'r', status: 'succeeded' }

it.each(WISHES)('takes in %s, however often others commit to the context first', async (_, wish) => {
  const it = await given()
  const before = (await it.owner.store.head(it.context)).revision
  await wish(it.other, it)
  expect((await it.owner.store.head(it.context)).revision).toBeGreaterThan(before + 7)
  expect(it.owner.errors).toEqual([])
})

it('gives up on a wish, and says why, when somebody is always faster', async () => {
  const it = await given(Number.POSITIVE_INFINITY)
  await expect(it.other.cancel(it.run.run_id)).rejects.toThrow(RevisionConflict)
})

it('carries a run through, each of its steps once, however often others commit first', async () => {
  const store = memoryBackend()
  const context_id = systemClock.uuid()
  const first = await runtimeOf({}, { store })
  await first.project.create(contextOf(context_id), by)
  await first.close()
  let calls = 0
  const driving = await runtimeOf(
    { count: () => ++calls },
    { store: overtaken(store, await openGraph(store, context_id)) },
  )
  onTestFinished(() => driving.close())
  const flow = flowOf({ one: { call: 'count' }, two: { call: 'count', after: ['one'] } })
  const run = await driving.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id } })
  expect([(await run.result()).status, calls, driving.errors]).toEqual(['completed', 2, []])
})

it('takes a run back, and each of its effects once, however often others commit first', async () => {
  const undone: unknown[] = []
  const functions = { undo: (args: unknown) => void undone.push(args) }
  const owner = await runtimeOf(functions)
  onTestFinished(() => owner.close())
  const inverse = { action_type: 'function', params: { name: 'undo', args: 'a' } }
  const run = await owner.submit(
    flowOf({
      done: { call: 'noop', binding: { inverse } },
      sent: { call: 'noop', binding: { inverse: 'irreversible', approval: 'none' } },
    }),
  )
  await run.result()
  const rival = await owner.project.context(run.context_id)
  const graph = await openGraph(overtaken(owner.store, rival), run.context_id)
  const { layer } = having(functions)
  const asked = await rollback({ graph, layer }, run.run_id)
  expect(asked.status).toBe('waiting')
  await owner.decide(asked.confirm_id!, { status: 'approved', decided_by_role: 'boss' })
  expect((await rollback({ graph, layer }, run.run_id)).effects).toMatchObject([{ status: 'undone' }])
  expect(undone).toEqual(['a'])
})

it('takes in what has changed in a folder, however often others commit first', async () => {
  const owner = await runtimeOf({})
  onTestFinished(() => owner.close())
  const root = tempFolder()
  const context_id = systemClock.uuid()
  const rival = await owner.project.create(contextOf(context_id), by)
  const graph = await openGraph(overtaken(owner.store, rival), context_id)
  put(root, { 'a.txt': 'new' })
  const tracker = await trackFiles(graph, { root })
  onTestFinished(() => tracker.close())
  expect([...graph.state.nodesOf('files')]).toMatchObject([{ data: { path: 'a.txt' } }])
})
