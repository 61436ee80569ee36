// Prints a run live from another process, and goes on where it was when that process is restarted.
//
//   npx tsx examples/live-events.ts                             starts a small run in a process of its own, and watches it
//   npx tsx examples/live-events.ts ws://127.0.0.1:7070/events  watches a server of yours (from its first event: --from-start)

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openSource } from '../src/bus/bus.ts'
import type { Delivery } from '../src/bus/transport.ts'
import type { WebSocketTransport } from '../src/bus/websocket.ts'
import { openRuntime } from '../src/compose.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import type { Flow } from '../src/orchestrator/submit.ts'
import { systemClock } from '../src/protocol/clock.ts'

const [url, option] = process.argv.slice(2)
if (process.send) await runAPlan(process.argv[2] as string)
else if (url) await watch(url, option === '--from-start' ? '' : undefined)
else await watchAChild()

/** Listens until the plan has ended, or for ever. */
async function watch(address: string, after: string | undefined, untilEnd = false): Promise<void> {
  const source = await openSource(address)
  for await (const delivery of source.events({ family: 'pipeline_stage' }, after === undefined ? {} : { after })) {
    console.log(lineOf(delivery))
    if (untilEnd && delivery.event.stage_id === 'plan' && delivery.event.stage_status === 'completed') break
  }
  await source.close()
}

function lineOf({ plan_id, revision, event }: Delivery): string {
  const { from_status, to_status } = (event.payload ?? {}) as Record<string, string>
  const stage =
    plan_id === undefined || event.stage_id === 'plan' ? event.stage_id : `step ${String(event.stage_id).slice(-8)}`
  const plan = (plan_id ?? '-').slice(-8).padEnd(8)
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

/** The other process: a runtime whose events go to whoever asks for them at a port of its own. */
async function runAPlan(folder: string): Promise<void> {
  const runtime = await openRuntime({
    vsl: `sqlite:${join(folder, 'state.db')}`,
    bus: ['ws://127.0.0.1:0/events'], // a port that is free
    functions: { work: () => systemClock.sleep(300).then(() => 'done') },
  })
  const { url } = runtime.buses[0]!.transport as WebSocketTransport
  process.send?.(url)
  const run = await runtime.submit(threeSteps())
  process.once('message', async () => {
    await run.result()
    await runtime.close()
    process.disconnect()
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
