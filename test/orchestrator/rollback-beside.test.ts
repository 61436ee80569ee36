import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { withTracking } from '../../src/orchestrator/tracked-files.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { openGraph, type ProjectGraph } from '../../src/psg/graph.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { BY, contextOf, META } from '../drift/given.ts'
import { add, set } from '../psg/given.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

const { uuid } = systemClock

type Rival = (graph: ProjectGraph, network: string, time: number) => Promise<unknown>

/**
 * A run that has ended and left a file and a network, and another process in which a rival writes whenever somebody has read what to take back, or is
 * about to commit that the network goes.
 */
async function given(rival: { readonly afterReading?: Rival; readonly beforeCommit?: Rival }) {
  const store = memoryBackend()
  const root = tempFolder()
  const layer = actionLayer({ adapters: [] })
  const runtime = await createRuntime({ store, layer })
  const context_id = uuid()
  const mine = await runtime.project.create(contextOf(context_id), BY)
  const writing = await trackFiles(mine, { root })
  layer.register(withTracking(await fileAdapter({ root }), writing))
  const params = { operation: 'write', path: 'a.txt', content: 'by the run\n' }
  const flow = flowOf({ write: { binding: { action_type: 'file_operation', params } } })
  const { run_id, result } = await runtime.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id } })
  expect((await result()).status).toBe('completed')
  const network = uuid()
  await mine.commit([add('network', network, networkOf(network, context_id))], { ...BY, run: run_id })
  await writing.close()
  await runtime.close()

  const theirs = await openGraph(store, context_id)
  const { born } = mine.get('run', run_id)!
  let times = 0
  let commits = 0
  const read: Backend['read'] = async function* (stream, from) {
    yield* store.read(stream, from)
    if (stream === context_id && from?.after === born) await rival.afterReading?.(theirs, network, ++times)
  }
  const commit: Backend['commit'] = async (write) => {
    if (JSON.stringify(write.entry ?? null).includes(`/network/${network}`))
      await rival.beforeCommit?.(theirs, network, ++commits)
    return store.commit(write)
  }
  const graph = await openGraph({ ...store, read, commit }, context_id)
  const tracker = await trackFiles(graph, { root })
  onTestFinished(() => tracker.close())
  return { root, run_id, graph, network, parts: { graph, layer, tracker }, times: () => times }
}

const networkOf = (network_id: string, context_id: string) =>
  ({ meta: META, network_id, context_id, name: 'by the run', topology_type: 'mesh', status: 'draft' }) as const

const elsewhere = (graph: ProjectGraph, _: string, time: number) =>
  graph.commit([set('context', graph.id, { summary: `${time}` })], BY)

it.each(['files and graph', 'the graph alone'])(
  'takes %s back while a run of the context never rests',
  async (what) => {
    const { root, run_id, graph, network, parts, times } = await given({ afterReading: elsewhere })
    const { tracker, ...alone } = parts
    expect(await rollback(what === 'the graph alone' ? alone : parts, run_id)).toMatchObject({
      status: 'done',
      left: [],
    })
    expect(times()).toBe(2) // planned before the first effect, and before the rest: not once more
    expect(graph.get('network', network)).toBeUndefined()
    expect(existsSync(join(root, 'a.txt'))).toBe(false)
    expect(await graph.verify()).toEqual([])
  },
)

it('leaves what somebody has changed between plan and commit, and takes back the rest', async () => {
  const it = await given({
    async afterReading(graph, network, time) {
      if (time === 2) await graph.commit([set('network', network, { name: 'theirs' })], BY)
    },
  })
  expect(await rollback(it.parts, it.run_id)).toMatchObject({
    status: 'incomplete',
    left: [{ what: 'graph', name: `network/${it.network}` }],
  })
  expect(it.graph.get('network', it.network)?.data.name).toBe('theirs')
  expect(existsSync(join(it.root, 'a.txt'))).toBe(false)
})

it('leaves what somebody has come to refer to between plan and commit', async () => {
  const node = uuid()
  const it = await given({
    async beforeCommit(graph, network, time) {
      const data = { node_id: node, kind: 'agent', status: 'active' } as const
      if (time === 1) await graph.commit([add('network_node', node, data, { owner: network })], BY)
    },
  })
  expect(await rollback(it.parts, it.run_id)).toMatchObject({
    status: 'incomplete',
    left: [{ what: 'graph', name: `network/${it.network}` }],
  })
  expect(it.graph.get('network_node', node)).toBeDefined()
  expect(existsSync(join(it.root, 'a.txt'))).toBe(false)
})
