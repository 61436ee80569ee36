import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { trackFiles } from '../../src/drift/track.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { withTracking } from '../../src/orchestrator/tracked-files.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { BY, contextOf } from '../drift/given.ts'
import { flowOf, type StepSpec } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'

const path = fc.constantFrom('a', 'b', 'c', 'd/e', 'link')
const content = fc.constantFrom('', 'x', 'y\r\nz', 'content of more than ten bytes')
const mode = fc.constantFrom(0o600, 0o644, 0o755)
const operation = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ operation: fc.constant('write'), path, content, mode: fc.option(mode, { nil: undefined }) }),
  },
  { weight: 1, arbitrary: fc.record({ operation: fc.constant('delete'), path }) },
  { weight: 2, arbitrary: fc.record({ operation: fc.constant('move'), path, to: path }) },
)
const story = fc.record({
  files: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd/e'), fc.record({ content, mode })),
  hasLink: fc.boolean(),
  runs: fc.array(fc.array(operation, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
  isTracked: fc.boolean(),
  keepBytes: fc.constantFrom(10, 1_000),
})
type Story = typeof story extends fc.Arbitrary<infer S> ? S : never

/** What lies in a folder, but for folders. */
function lyingIn(root: string, folder = ''): { readonly [path: string]: string } {
  const found: { [path: string]: string } = {}
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const at = join(folder, entry.name)
    const full = join(root, at)
    if (entry.isDirectory()) Object.assign(found, lyingIn(root, at))
    else if (entry.isSymbolicLink()) found[at] = `-> ${readlinkSync(full)}`
    else found[at] = `${(lstatSync(full).mode & 0o777).toString(8)} ${readFileSync(full, 'utf8')}`
  }
  return found
}

function laidDown({ files, hasLink }: Story): string {
  const root = tempFolder()
  for (const [name, file] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), file.content)
    chmodSync(join(root, name), file.mode)
  }
  if (hasLink) symlinkSync('a', join(root, 'link'))
  return root
}

/** Runs one after the other, each taken back from the last to the first: after each all is as it was before it. */
async function takenBack(told: Story): Promise<void> {
  const root = laidDown(told)
  const store = memoryBackend()
  const layer = actionLayer({ adapters: [] })
  const runtime = await createRuntime({ store, layer })
  const context_id = systemClock.uuid()
  const graph = await runtime.project.create(contextOf(context_id), BY)
  const tracker = await trackFiles(graph, { root, keepBytes: told.keepBytes })
  const blobs = { put: (bytes: Uint8Array) => store.putBlob(bytes), get: store.getBlob }
  const { staleCheck } = tracker
  const adapter = await fileAdapter({ root, blobs, ...(told.isTracked && { staleCheck }) })
  layer.register(told.isTracked ? withTracking(adapter, tracker) : adapter)
  const parts = { graph, layer, ...(told.isTracked && { tracker }) }

  const done: { readonly run: string; readonly before: ReturnType<typeof lyingIn> }[] = []
  for (const operations of told.runs) {
    const steps: { [name: string]: StepSpec } = {}
    for (const [i, params] of operations.entries()) {
      const binding = {
        action_type: 'file_operation',
        params: JSON.parse(JSON.stringify(params)),
        on_failure: 'skip' as const,
      }
      steps[`s${i}`] = { binding, ...(i > 0 && { after: [`s${i - 1}`] }) }
    }
    const flow = flowOf(steps)
    const before = lyingIn(root)
    const run = await runtime.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id } })
    await run.result()
    done.push({ run: run.run_id, before })
    await tracker.idle()
  }
  for (const { run, before } of done.reverse()) {
    const planned = await rollback(parts, run, { dryRun: true })
    const { status, left } = await rollback(parts, run)
    expect([planned.left, left, lyingIn(root)]).toEqual([[], [], before])
    expect(['done', 'nothing']).toContain(status)
    expect((await rollback(parts, run)).status).toBe('nothing')
  }
  if (told.isTracked) expect((await tracker.scan()).findings).toEqual([])
  expect(await graph.verify()).toEqual([])
  await tracker.close()
  await runtime.close()
  await layer.close()
}

it('whatever runs did to files is taken back as it was said before, and leaves nothing to take back', async () => {
  await fc.assert(fc.asyncProperty(story, takenBack), { numRuns: 60 })
}, 240_000)
