// Prints a run live from another process, and goes on where it was when that process is restarted.
//
//   npx tsx examples/live-events.ts                             starts a small run in a process of its own, and watches it
//   npx tsx examples/live-events.ts ws://127.0.0.1:7070/events  watches a server of yours (from its first event: --from-start)

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import type { Delivery } from '../src/bus/transport.ts'
import { websocketTransport } from '../src/bus/websocket.ts'
import { connectEvents } from '../src/bus/websocket-client.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import { relay } from '../src/orchestrator/relay.ts'
import { historyOf } from '../src/orchestrator/relay-history.ts'
import { createRuntime } from '../src/orchestrator/runtime.ts'
import type { Flow } from '../src/orchestrator/submit.ts'
import { systemClock } from '../src/protocol/clock.ts'
import { thisHolder } from '../src/vsl/holder.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'

const [url, option] = process.argv.slice(2)
if (process.send) await runAPlan(process.argv[2] as string)
else if (url) await watch(url, option === '--from-start' ? '' : undefined)
else await watchAChild()

/** Listens until the plan has ended, or for ever. */
async function watch(address: string, after: string | undefined, untilEnd = false): Promise<void> {
  const source = connectEvents(address)
  for await (const delivery of source.events({ family: 'pipeline_stage' }, after === undefined ? {} : { after })) {
    console.log(lineOf(delivery))
    if (untilEnd && delivery.event.stage_id === 'plan' && delivery.event.stage_status === 'completed') break
  }
  await source.close()
}

function lineOf({ plan_id, revision, event }: Delivery): string {
  const { from_status, to_status } = (event.payload ?? {}) as Record<string, string>
  const stage =
    plan_id === undefined || event.stage_id === 'plan' ? event.stage_id : `step ${String(event.stage_id).slice(0, 8)}`
  const plan = (plan_id ?? '-').slice(0, 8).padEnd(8)
  return `${event.timestamp}  ${plan}  #${revision}  ${String(stage).padEnd(14)} ${from_status ?? '-'} -> ${to_status}`
}

async function watchAChild(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'mplp-example-'))
  const worker = fork(fileURLToPath(import.meta.url), [folder])
  const address = await new Promise<string>((resolve) => worker.once('message', (message) => resolve(String(message))))
  console.log(`watching ${address}, served by process ${worker.pid}`)
  await watch(address, '', true)
  worker.send('enough')
  await new Promise((resolve) => worker.once('exit', resolve))
  rmSync(folder, { recursive: true })
}

/** The other process: a store, a runtime, and a WebSocket bus fed from the store's journal. */
async function runAPlan(folder: string): Promise<void> {
  const store = await sqliteBackend({ path: join(folder, 'state.db') })
  const bus = await websocketTransport({ history: historyOf(store, 'websocket') })
  const carrying = relay({ store, transport: bus, name: 'websocket', holder: thisHolder(systemClock.uuid()) })
  const work = functionAdapter({ work: () => systemClock.sleep(300).then(() => 'done') })
  const runtime = await createRuntime({ store, layer: actionLayer({ adapters: [work] }) })
  process.send?.(bus.url)
  const run = await runtime.submit(threeSteps())
  process.once('message', async () => {
    await run.result()
    await runtime.close()
    await carrying.close()
    await bus.close()
    await store.close()
    process.exit(0)
  })
}

function threeSteps(): Flow {
  const work = { action_type: 'function', params: { name: 'work' } }
  const steps = {
    one: work,
    two: { ...work, dependencies: ['one' as const] },
    three: { ...work, dependencies: ['two' as const] },
  }
  return flowOf({ title: 'Three steps', objective: 'To be watched', steps }).flow
}
