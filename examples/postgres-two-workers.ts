// Two worker processes share twenty plans in one Postgres, each step done once. The first process only submits and listens.
// Two of the plans begin with a function that only one of the workers has: the other leaves them to it, so that both have something to do.
// Needs a Postgres whose database exists; a schema of its own is made there and dropped at the end.
// npx tsx examples/postgres-two-workers.ts postgres://localhost/mplp       (or DATABASE_URL)
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { actionLayer } from '../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../src/ael/function.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import type { RunHandle } from '../src/orchestrator/run.ts'
import { createRuntime } from '../src/orchestrator/runtime.ts'
import { systemClock } from '../src/protocol/clock.ts'
import { postgresBackend } from '../src/vsl/postgres.ts'

const PLANS = 20
const url = process.argv[2] ?? process.env.DATABASE_URL ?? 'postgres://localhost/mplp'
const schema = process.argv[3] ?? `example_${systemClock.uuid().replaceAll('-', '')}`
const calling = (name: string) => ({ action_type: 'function', params: { name } })
const STEP = calling('work')
/** Each has a function of its own name, which the other has not. */
const WORKERS = ['left', 'right']

if (process.send) await work()
else await share()

/** A worker: takes up whatever has no owner, until it is told to stop. Tells its parent what it does. */
async function work(): Promise<void> {
  const name = process.argv[4]!
  const store = await postgresBackend({ url, schema })
  const step: FunctionSpec = async (_, { idempotency_key }) => {
    process.send?.({ did: idempotency_key })
    await systemClock.sleep(20)
    return process.pid
  }
  const layer = actionLayer({ adapters: [functionAdapter({ work: step, [name]: step })] })
  const onError = (error: unknown) => console.error(`${name}: ${error instanceof Error ? error.message : error}`) // also what it leaves
  const runtime = await createRuntime({ store, layer, patrolMs: 50, onError })
  process.send?.({ ready: true })
  await once(process, 'message')
  await runtime.close()
  await layer.close()
  await store.close()
  process.disconnect()
}

async function share(): Promise<void> {
  const store = await postgresBackend({ url, schema })
  const layer = actionLayer()
  const runtime = await createRuntime({ store, layer, mine: new Set() }) // submits, and drives nothing
  const done: string[] = []
  const workers = await Promise.all(WORKERS.map((name) => startWorker(name, done)))

  const runs: RunHandle[] = []
  for (let plan = 0; plan < PLANS; plan++) {
    const one = calling(WORKERS[plan] ?? 'work')
    const { flow } = flowOf({
      title: `Plan ${plan + 1}`,
      steps: { one, two: { ...STEP, dependencies: ['one'] }, three: { ...STEP, dependencies: ['two'] } },
    })
    runs.push(await runtime.submit(flow))
  }
  const results = await Promise.all(runs.map((run) => run.result()))
  const pids = results.flatMap(({ outputs }) => Object.values(outputs))
  console.log(`${results.filter(({ success }) => success).length} of ${PLANS} plans are completed`)
  console.log(`${done.length} steps were done, ${done.length - new Set(done).size} of them twice`)
  const busy = workers.filter(({ pid }) => pids.includes(pid!)).length
  console.log(`${busy} workers took part`)
  for (const { pid } of workers) console.log(`  process ${pid}: ${pids.filter((one) => one === pid).length} steps`)

  await Promise.all(
    workers.map(async (worker) => {
      worker.send('enough')
      await once(worker, 'exit')
    }),
  )
  await runtime.close()
  await layer.close()
  await store.close()
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query(`drop schema "${schema}" cascade`)
  await client.end()
}

async function startWorker(name: string, done: string[]): Promise<ChildProcess> {
  const worker = fork(fileURLToPath(import.meta.url), [url, schema, name])
  await once(worker, 'message')
  worker.on('message', (message: { did?: string }) => void (message.did && done.push(message.did)))
  return worker
}
