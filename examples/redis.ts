// The graph in Redis and its events on a Redis stream, under a prefix of its own that is removed at the end.
// Needs a Redis, for example: redis-server --appendonly yes --appendfsync always
// npx tsx examples/redis.ts redis://localhost:6379       (or REDIS_URL)
import { Redis } from 'ioredis'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { redisTransport } from '../src/bus/redis.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import { relay } from '../src/orchestrator/relay.ts'
import { createRuntime } from '../src/orchestrator/runtime.ts'
import { systemClock } from '../src/protocol/clock.ts'
import type { Json } from '../src/protocol/json.ts'
import { thisHolder } from '../src/vsl/holder.ts'
import { redisBackend } from '../src/vsl/redis.ts'

const url = process.argv[2] ?? process.env.REDIS_URL ?? 'redis://localhost:6379'
const prefix = `example-${systemClock.uuid()}`

const store = await redisBackend({ url, prefix })
const { durable, processes } = store.traits
console.log(`the store is ${durable ? 'durable' : 'not durable: set appendfsync always'}, for ${processes} processes`)

const bus = await redisTransport({ url, prefix })
const carrying = relay({ store, transport: bus, name: 'redis', holder: thisHolder(systemClock.uuid()) })
const stages: string[] = []
await bus.subscribe({ family: 'pipeline_stage' }, ({ event }) => void stages.push(event.event_type))

const layer = actionLayer({ adapters: [functionAdapter({ double: (n) => Number(n) * 2 })] })
const runtime = await createRuntime({ store, layer })
const double = (args: Json) => ({ action_type: 'function', params: { name: 'double', args } })
const { flow } = flowOf({ title: 'Double twice', steps: { once: double(10), twice: double({ $from: 'once' }) } })
const run = await runtime.submit(flow)
const { status, outputs } = await run.result()
console.log(`${status}: ${Object.values(outputs).join(', then ')}`)

await carrying.flush()
while (!stages.includes('plan_status_changed') || stages.filter((type) => type === 'step_completed').length < 2)
  await systemClock.sleep(10)
console.log(`heard over Redis: ${stages.filter((type) => type.startsWith('step_')).join(', ')}`)

await runtime.close()
await layer.close()
await carrying.close()
await bus.close()
await store.close()

const redis = new Redis(url)
const left = await redis.keys(`{${prefix}}:*`)
await redis.unlink(...left)
redis.disconnect()
console.log(`${left.length > 0 ? 'removed' : 'found no'} keys of the example`)
