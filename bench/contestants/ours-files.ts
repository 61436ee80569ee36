import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { trackFiles } from '../../src/drift/drift.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { withTracking } from '../../src/orchestrator/tracked-files.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { VERSION } from '../../src/protocol/version.ts'
import { openProject } from '../../src/psg/psg.ts'
import { type Backend, openStore } from '../../src/vsl/vsl.ts'
import { flowOf, type StepSpec } from '../../test/support/flows.ts'
import type { Open } from './contestant.ts'

/** This runtime with steps that each write a file of its own; with the extra `files`, into a folder that the graph keeps track of. */
export const open: Open = async ({ folder, extra }) => {
  const root = join(folder, 'files')
  mkdirSync(root)
  const store = await openStore(`sqlite:${join(folder, 'state.db')}`)
  const blobs = { put: store.putBlob, get: store.getBlob }
  const tracker = extra === 'files' ? await trackFiles(await folderGraph(store), { root }) : undefined
  const files = await fileAdapter({ root, blobs, ...(tracker && { staleCheck: tracker.staleCheck }) })
  const layer = actionLayer({ adapters: [tracker ? withTracking(files, tracker) : files], blobs })
  const runtime = await createRuntime({ store, layer })
  let plans = 0

  return {
    version: VERSION,
    durability: 'each step fsynced (WAL, synchronous FULL)',
    async chain(steps) {
      const { status } = await (await runtime.submit(flowOf(writes(steps, plans++)))).result()
      if (status !== 'completed') throw new Error(`the run ended ${status}`)
    },
    async close() {
      await runtime.close()
      await tracker?.close()
      await store.close()
    },
  }
}

function writes(steps: number, plan: number): { [name: string]: StepSpec } {
  const step = (i: number): StepSpec => ({
    binding: {
      action_type: 'file_operation',
      params: { operation: 'write', path: `plan-${plan}/file-${i}.txt`, content: `what step ${i} has written\n` },
    },
    ...(i > 0 && { after: [`s${i - 1}`] }),
  })
  return Object.fromEntries(Array.from({ length: steps }, (_, i) => [`s${i}`, step(i)]))
}

async function folderGraph(store: Backend) {
  const meta = { protocol_version: '1.0.0', schema_version: '1.0.0' } as const
  const root = { domain: 'bench', environment: 'local' }
  const context = { meta, context_id: systemClock.uuid(), root, title: 'Files', status: 'active' }
  return (await openProject(store)).create(context, { actor: 'bench', reason: 'to be measured' })
}
