/** One life of a worker: takes up whatever runs in the store until it is killed or the run has ended. Arguments: store URL, plan id, ledger file, or `-` and a flow file to submit first. */
import { appendFileSync, readFileSync } from 'node:fs'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import { openStore } from '../../src/vsl/vsl.ts'

const [url, plan, ledger, flow] = process.argv.slice(2) as [string, string, string, string | undefined]
const store = await openStore(url)
const layer = actionLayer({
  adapters: [
    functionAdapter({
      work(args, { idempotency_key, attempt }) {
        appendFileSync(ledger, `${JSON.stringify({ key: idempotency_key, attempt, pid: process.pid })}\n`)
        return { square: (args as { n: number }).n ** 2 }
      },
    }),
  ],
})
const runtime = await createRuntime({ store, layer, onError: (error) => console.error(error) })
const run = flow === undefined ? await runtime.get(plan) : await runtime.submit(JSON.parse(readFileSync(flow, 'utf8')))
console.log('up')
const { status } = await run.result()
console.log(`ended ${status}`)
await runtime.close()
await store.close()
