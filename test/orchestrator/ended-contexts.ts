import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import type { Json } from '../../src/protocol/json.ts'
import { takeApart } from '../../src/psg/document.ts'
import { endPlan, move } from '../../src/psg/moves.ts'
import type { Project } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { by, confirmData, contextOf, lasting, META, planOf } from '../psg/given.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

export const SOON = { before: '2500-01-01T00:00:00Z' }
export const LONG_AGO = { before: '2020-01-01T00:00:00Z' }
export const DAY = 86_400_000
export const NEXT_WEEK = { ...systemClock, now: () => systemClock.now() + 7 * DAY }
export const LARGE = 'x'.repeat(100_000)

/** What a run that has ended leaves. */
export async function ran(store: Backend, output: Json = null, clock = systemClock): Promise<string> {
  const runtime = await keepingBlobs(store, output, clock)
  const run = await runtime.submit(flowOf({ work: {} }))
  await run.result()
  await runtime.close()
  return run.context_id
}

export const keepingBlobs = (store: Backend, output: Json, clock = systemClock) =>
  createRuntime({
    store: lasting(store),
    clock,
    layer: actionLayer({
      adapters: [functionAdapter({ work: () => output })],
      blobs: { put: store.putBlob, get: store.getBlob },
    }),
  })

/** What keeps a context from having ended. */
export const KEEPING: readonly (readonly [string, (project: Project, store: Backend) => Promise<unknown>])[] = [
  [
    'a plan that nobody has begun',
    async (project) => {
      const graph = await project.create(contextOf(systemClock.uuid()), by)
      await graph.commit(planOf({ context: graph.id, id: systemClock.uuid }).changes, by)
    },
  ],
  [
    'a dialog with the id of a plan that has ended',
    async (project) => {
      const graph = await project.create(contextOf(systemClock.uuid()), by)
      const { id, changes } = planOf({ context: graph.id, id: systemClock.uuid })
      const dialog = { meta: META, dialog_id: id, context_id: graph.id, status: 'active', messages: [] }
      await graph.commit([...changes, ...takeApart('dialog', dialog)], by)
      await graph.commit(endPlan(graph, id, 'cancelled'), by)
    },
  ],
  ['a draft', (project) => project.create({ ...contextOf(systemClock.uuid()), status: 'draft' }, by)],
  [
    'what somebody has suspended',
    async (project) => {
      const graph = await project.create(contextOf(systemClock.uuid()), by)
      await graph.commit([move('context', graph.id, 'suspended')], by)
    },
  ],
  [
    'files',
    async (project) => {
      const graph = await project.create(contextOf(systemClock.uuid()), by)
      const root = tempFolder()
      writeFileSync(join(root, 'a.txt'), 'a')
      await (await trackFiles(graph, { root })).close()
    },
  ],
  [
    'a question about what has ended',
    async (project, store) => {
      const graph = await project.context(await ran(store))
      const data = confirmData(systemClock.uuid(), 'context', graph.id)
      await graph.commit([{ kind: 'node_add', node: 'confirm', id: data.confirm_id, data }], by)
    },
  ],
  [
    'a run that waits',
    async (_, store) => {
      const runtime = await runtimeOf({}, { store: lasting(store) })
      const wait = { binding: { action_type: 'wait', params: { signal: 'go' } } }
      await (await runtime.submit(flowOf({ wait }))).rest()
      await runtime.close()
    },
  ],
]
