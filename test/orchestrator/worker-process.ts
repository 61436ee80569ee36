import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { createRuntime } from '../../src/orchestrator/runtime.ts'
import type { Lease } from '../../src/vsl/backend.ts'
import { openStore, type StoreOptions } from '../../src/vsl/vsl.ts'

// A worker on a store that others share: takes up what runs there, prints every call of its functions, and every commit that was refused.
// `held` waits until the file `go` is there; a worker that is given one only believes that it has renewed its lease, so that nothing but the fence
// stands between it and what is no longer its own. A line on stdin ends the worker.
const [url, options, leaseTtlMs, go] = process.argv.slice(2) as [string, string, string, string]
const store = await openStore(url, JSON.parse(options) as StoreOptions)
const told = {
  ...store,
  renew: (lease: Lease) => (go === '' ? store.renew(lease) : Promise.resolve(true)),
  commit: (write: Parameters<typeof store.commit>[0]) =>
    store.commit(write).catch((error) => {
      console.log(`refused ${error.constructor.name}`)
      throw error
    }),
}
const layer = actionLayer({
  adapters: [
    functionAdapter({
      work(_, { idempotency_key }) {
        console.log(`call ${idempotency_key}`)
        return null
      },
      async held(_, { idempotency_key }) {
        console.log(`call ${idempotency_key}`)
        while (!existsSync(go)) await setTimeout(20)
        return null
      },
    }),
  ],
})
const runtime = await createRuntime({
  store: told,
  layer,
  patrolMs: 50,
  leaseTtlMs: Number(leaseTtlMs),
  onError: (error) => console.log(`error ${error}`),
})
console.log('up')
for await (const _ of createInterface({ input: process.stdin })) break
await runtime.close()
await store.close()
console.log('closed')
