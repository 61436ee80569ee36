import { openBuses } from '../../src/bus/bus.ts'
import { relay } from '../../src/orchestrator/relay.ts'
import { historyOf } from '../../src/orchestrator/relay-history.ts'
import { isoMicros, systemClock } from '../../src/protocol/clock.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import type { Life } from './bus.ts'

/** Commits without end and relays to three buses, until it is killed, kills itself, or is told to finish. */
const life = JSON.parse(process.argv[2] ?? '') as Life
const store = await sqliteBackend({ path: life.path })
const clock = systemClock
const buses = await openBuses([life.redis, life.kafka, life.websocket], {
  history: (bus) => historyOf(store, bus),
  redis: { prefix: life.prefix },
  kafka: { createTopic: { partitions: 4 } },
  onError: (error) => console.error(String(error)),
})
let confirmations = 0
const relays = buses.map(({ name, transport }) =>
  relay({
    ...{ store, name, clock },
    transport: {
      ...transport,
      async publish(batch) {
        await transport.publish(batch)
        // Between the bus's confirmation and the position's commit: the moment at which a relay knows more than its store.
        if (life.dieOn === name && ++confirmations >= life.dieAfter) process.kill(process.pid, 'SIGKILL')
      },
    },
    holder: thisHolder(clock.uuid()),
    moveEveryMs: 20,
    batch: { deliveries: 50 },
    onError: (error) => console.error(String(error)),
  }),
)
console.log('up')

let finish = false
process.stdin.once('data', () => {
  finish = true
})
const revisions = new Map<string, number>()
for (const graph of life.graphs) revisions.set(graph, (await store.head(graph)).revision)
while (!finish) {
  for (const graph of life.graphs) {
    const revision = revisions.get(graph) as number
    const at = isoMicros(clock.now() * 1000)
    const events = Array.from({ length: 1 + Math.floor(clock.random() * 3) }, () => ({
      event: {
        event_id: clock.uuid(),
        event_type: 'context_intent_received',
        event_family: 'intent',
        timestamp: at,
        payload: { graph, revision: revision + 1 },
      },
    }))
    const entry = { commit_id: clock.uuid(), at, actor: 'torture', reason: 'torture', changes: [], events }
    await store.commit({ stream: graph, expected: revision, entry, inserts: [], puts: [], deletes: [] })
    revisions.set(graph, revision + 1)
  }
  await clock.sleep(5) // a producer that leaves the machine some time for those who listen
}
for (const one of relays) await one.flush()
console.log('flushed')
process.stdin.once('data', async () => {
  for (const one of relays) await one.close()
  for (const { transport } of buses) await transport.close()
  await store.close()
  process.exit(0)
})
