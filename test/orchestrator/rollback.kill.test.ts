import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { withTracking } from '../../src/orchestrator/tracked-files.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { openProject } from '../../src/psg/project.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { BY, contextOf, put } from '../drift/given.ts'
import { child } from '../support/child.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

const PROGRAM = new URL('rollback-process.ts', import.meta.url)
const COUNT = 12
const LONG = 'a line that is there to make the file long\n'.repeat(5_000)
const former = (i: number) => `as it was ${i}\n${LONG}`
const later = (i: number) => `by the run ${i}\n${LONG}`

/** A run that changed some files, made some, and deleted one, in a store that is closed again. */
async function ended() {
  const [root, path] = [tempFolder(), join(tempFolder(), 'state.db')]
  put(root, Object.fromEntries(Array.from({ length: COUNT }, (_, i) => [`f${i}.txt`, former(i)])))
  const store = await sqliteBackend({ path })
  const layer = actionLayer({ adapters: [] })
  const runtime = await createRuntime({ store, layer })
  const context_id = systemClock.uuid()
  const graph = await runtime.project.create(contextOf(context_id), BY)
  const tracker = await trackFiles(graph, { root })
  const blobs = { put: (bytes: Uint8Array) => store.putBlob(bytes), get: store.getBlob }
  layer.register(withTracking(await fileAdapter({ root, blobs, staleCheck: tracker.staleCheck }), tracker))
  const step = (params: { readonly [name: string]: string }): StepSpec => ({
    binding: { action_type: 'file_operation', params },
  })
  const flow = flowOf({
    ...Object.fromEntries(
      Array.from({ length: COUNT - 1 }, (_, i) => [
        `change${i}`,
        step({ operation: 'write', path: `f${i}.txt`, content: later(i) }),
      ]),
    ),
    make: step({ operation: 'write', path: 'new/made.txt', content: 'new\n' }),
    delete: step({ operation: 'delete', path: `f${COUNT - 1}.txt` }),
  })
  const run = await runtime.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id } })
  expect((await run.result()).status).toBe('completed')
  await tracker.close()
  await runtime.close()
  await layer.close()
  await store.close()
  return { root, path, context: context_id, run: run.run_id }
}

const contents = (root: string): { readonly [name: string]: string } =>
  Object.fromEntries(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => [entry.name, readFileSync(join(entry.parentPath, entry.name), 'utf8')]),
  )

describe('a process that is killed while it takes a run back', () => {
  it.each(['begin', '1', '6', 'end'] as const)(
    'leaves no file half written, and the next one brings all of it back (killed at: %s)',
    async (when) => {
      const { root, path, context, run } = await ended()
      const going = child(PROGRAM, [path, context, root, run, when])
      expect(await going.exited).toBe('SIGKILL')
      expect(going.lines).not.toContain('survived')
      for (const [name, content] of Object.entries(contents(root))) {
        const i = Number(/^f(\d+)\.txt$/.exec(name)?.[1])
        if (Number.isInteger(i)) expect([former(i), later(i)]).toContain(content)
      }

      const store = await sqliteBackend({ path })
      const graph = await (await openProject(store)).context(context)
      const tracker = await trackFiles(graph, { root }) // goes on with what was cut off
      const layer = actionLayer({ adapters: [] })
      expect((await rollback({ graph, layer, tracker }, run)).status).toBe('done')
      const traces = (await graph.query({ kind: 'trace', where: { status: 'running' } })).nodes
      expect(traces).toEqual([]) // the way back that was cut off is told to its end
      expect(contents(root)).toEqual(
        Object.fromEntries(Array.from({ length: COUNT }, (_, i) => [`f${i}.txt`, former(i)])),
      )
      expect((await tracker.scan()).findings).toEqual([])
      expect((await rollback({ graph, layer, tracker }, run)).status).toBe('nothing')
      await tracker.close()
      await layer.close()
      expect(await graph.verify()).toEqual([])
      await store.close()
    },
  )
})
