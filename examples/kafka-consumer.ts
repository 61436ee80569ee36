// Runs on one side, a consumer group in other processes on the other: what is committed arrives, and a group goes on where its last member was.
// Needs a Kafka, for example apache/kafka on port 9092; a topic of its own is made there and removed at the end.
// npx tsx examples/kafka-consumer.ts localhost:9092       (or KAFKA_BROKERS)
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Kafka, logLevel } from 'kafkajs'
import { kafkaTransport } from '../src/bus/kafka.ts'
import { openRuntime } from '../src/compose.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import { systemClock } from '../src/protocol/clock.ts'

const brokers = process.argv[2] ?? process.env.KAFKA_BROKERS ?? 'localhost:9092'
const topic = process.argv[3] ?? `example-${systemClock.uuid()}`
const url = `kafka://${brokers}/${topic}`

if (process.send) await consume()
else await produce()

/** A member of the group: tells its parent when a plan is completed, and ends after the first. */
async function consume(): Promise<void> {
  const source = await kafkaTransport({ url })
  let end: (plan: string) => void
  const ended = new Promise<string>((resolve) => {
    end = resolve
  })
  await source.subscribe(
    { type: ['step_completed', 'plan_status_changed'] },
    ({ event }) => {
      console.log(`  process ${process.pid} hears ${event.event_type}`)
      if (event.to_state === 'completed') end(String(event.pipeline_id))
    },
    { group: 'billing', after: '' },
  ) // it may hear of all before this is over
  process.send?.(await ended)
  await source.close()
  process.disconnect()
}

async function produce(): Promise<void> {
  const transport = await kafkaTransport({ url, createTopic: { partitions: 3 } })
  const runtime = await openRuntime({
    vsl: 'memory:',
    functions: { greet: () => 'hello' },
    bus: [{ name: 'kafka', transport }],
  })
  const heard: string[] = []
  const done: string[] = []
  for (const title of ['a first plan', 'a second plan, while nobody listens']) {
    const greet = { action_type: 'function', params: { name: 'greet' } }
    const run = await runtime.submit(flowOf({ title, steps: { greet } }).flow)
    await run.result()
    await runtime.flush()
    done.push(run.plan_id)
    console.log(`${title} is completed, and on Kafka`)
    heard.push(await listen())
  }
  const same = heard.every((plan, i) => plan === done[i])
  console.log(`the group heard of ${new Set(heard).size} plans, ${same ? 'in order' : 'out of order'}`)
  await runtime.close()
  const admin = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
}

/** A member for as long as it takes to hear of one completed plan. */
async function listen(): Promise<string> {
  const member = fork(fileURLToPath(import.meta.url), [brokers, topic])
  const [[plan]] = await Promise.all([once(member, 'message'), once(member, 'exit')])
  return String(plan)
}
