// A store of your own: nothing but `get` and `set`, here one file per key. The runtime makes it whole; `backendContract` of mplp-runtime/testing proves it.
// npx tsx examples/custom-store.ts
import { createHash } from 'node:crypto'
import { mkdtemp, open, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRuntime } from '../src/compose.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import type { Json } from '../src/protocol/json.ts'
import { type BareStore, openStore } from '../src/vsl/vsl.ts'

/**
 * A folder with one file per key. A value is there whole or not at all: it is written beside its place, and then moved there. With `sync` it is also
 * on the disk when `set` returns.
 */
export function folderOfFiles(folder: string, { sync = true } = {}): BareStore {
  const place = (key: string) => join(folder, createHash('sha256').update(key).digest('hex'))
  let writes = 0
  return {
    async get(key) {
      try {
        return JSON.parse(await readFile(place(key), 'utf8')) as Json
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw error
      }
    },
    async set(key, value) {
      const beside = `${place(key)}.${++writes}`
      const file = await open(beside, 'w')
      await file.writeFile(JSON.stringify(value))
      if (sync) await file.sync()
      await file.close()
      await rename(beside, place(key))
    },
  }
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'mplp-custom-store-'))
  const functions = { add: (terms: Json) => (terms as number[]).reduce((sum, term) => sum + term, 0) }
  const opened = async () => {
    const store = await openStore(folderOfFiles(folder))
    return { store, runtime: await openRuntime({ functions }, { store }) }
  }

  const first = await opened()
  console.log(`made whole: for ${first.store.traits.processes} process at a time`)
  const run = await first.runtime.submit(
    flowOf({ title: 'A sum', steps: { sum: { action_type: 'function', params: { name: 'add', args: [1, 2, 3] } } } })
      .flow,
  )
  console.log(`the run is ${(await run.result()).status}`)
  await first.runtime.close()
  await first.store.close()

  const second = await opened()
  const again = await second.runtime.get(run.plan_id)
  console.log(`opened again, it still says ${Object.values((await again.result()).outputs).join()}`)
  const graph = await second.runtime.project.context(run.context_id)
  console.log(`the store holds together: ${(await graph.verify()).length === 0 ? 'yes' : 'no'}`)
  await second.runtime.close()
  await second.store.close()
  await rm(folder, { recursive: true })
}

if (import.meta.filename === process.argv[1]) await main()
