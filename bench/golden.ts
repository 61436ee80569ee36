/** All golden flows, on memory and on every kind of store, and evidence: a pack of 10,000 events, exported and verified. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { type FreshStore, inMemory, ownDriver, readFlows, runGolden } from '../src/golden/golden.ts'
import { exportPack } from '../src/golden/pack.ts'
import { verifyPack } from '../src/golden/verify-pack.ts'
import { createRuntime } from '../src/orchestrator/runtime.ts'
import { systemClock } from '../src/protocol/clock.ts'
import { memoryBackend } from '../src/vsl/memory.ts'
import { openStore } from '../src/vsl/vsl.ts'
import { chainOf } from '../test/support/flows.ts'
import { startServers } from '../test/support/start-servers.ts'
import { figure, type Table, tell } from './report.ts'

const EVENTS = 10_000
const EVENTS_PER_STEP = 4 // of the families that a timeline holds
const folder = await mkdtemp(join(tmpdir(), 'mplp-bench-golden-'))
const servers = await startServers({ redis: true, postgres: true })
try {
  const flows = await readFlows(join(import.meta.dirname, '../golden-flows'))
  const driver = ownDriver({ open: fresh })
  const on = async (...backends: string[]) => {
    const { results } = await runGolden({ flows, driver, backends })
    const failed = results.find(({ status }) => status !== 'passed')
    if (failed) throw new Error(`${failed.flow} ${failed.status} on ${failed.backend}: ${failed.reason}`)
  }
  await on('memory') // warm
  tell(`Golden flows, ${flows.length} of them`, {
    memory: await timed(5, () => on('memory')),
    file: await timed(undefined, () => on('file')),
    sqlite: await timed(undefined, () => on('sqlite')),
    redis: await timed(undefined, () => on('redis')),
    postgres: await timed(undefined, () => on('postgres')),
    'all five at once': await timed(60, () => on('memory', 'file', 'sqlite', 'redis', 'postgres')),
  })
  await packs()
} finally {
  await servers.stop()
  await rm(folder, { recursive: true, force: true })
}

async function packs(): Promise<void> {
  const layer = actionLayer({ adapters: [functionAdapter({ noop: () => null })] })
  const runtime = await createRuntime({ store: memoryBackend(), layer })
  const run = await runtime.submit(chainOf(EVENTS / EVENTS_PER_STEP))
  await run.result()
  const at = join(folder, 'pack')
  let events = 0
  const exported = await timed(2, async () => {
    events = (await exportPack(runtime.project, run.plan_id, at)).events
  })
  if (events < EVENTS) throw new Error(`only ${events} events`)
  const verified = await timed(2, async () => {
    const { findings } = await verifyPack(at)
    if (findings[0]) throw new Error(`${findings[0].path} ${findings[0].message}`)
  })
  await runtime.close()
  tell(`An evidence pack of ${figure(events)} events`, { exported, verified })
}

/** Wall and CPU, beside what is wanted. */
async function timed(wanted: number | undefined, work: () => Promise<unknown>): Promise<Table['rows'][string]> {
  const [began, cpu] = [performance.now(), process.cpuUsage()]
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return {
    s: figure((performance.now() - began) / 1000),
    's of CPU': figure((user + system) / 1e6),
    'wanted s': wanted === undefined ? '' : figure(wanted),
  }
}

async function fresh(backend: string): Promise<FreshStore> {
  if (backend === 'memory') return inMemory(memoryBackend())
  const name = `${servers.run}_${systemClock.uuid().replaceAll('-', '').slice(0, 16)}`
  const dispose = async () => undefined
  if (backend === 'redis') return { open: () => openStore(servers.redis!.url, { prefix: name }), dispose }
  if (backend === 'postgres') return { open: () => openStore(servers.postgres!.url, { schema: name }), dispose }
  return { open: () => openStore(`${backend}:${join(folder, name)}`), dispose }
}
