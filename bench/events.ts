import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EventEmitter } from 'eventemitter3'
import { openBus } from '../src/bus/bus.ts'
import { memoryTransport } from '../src/bus/memory.ts'
import type { Delivery, Transport } from '../src/bus/transport.ts'
import { websocketTransport } from '../src/bus/websocket.ts'
import { relay } from '../src/orchestrator/relay.ts'
import { deliveriesOf } from '../src/orchestrator/relay-feed.ts'
import { historyOf } from '../src/orchestrator/relay-history.ts'
import { isoMicros, systemClock } from '../src/protocol/clock.ts'
import type { Backend } from '../src/vsl/backend.ts'
import { thisHolder } from '../src/vsl/holder.ts'
import { postgresBackend } from '../src/vsl/postgres.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'
import { child } from '../test/support/child.ts'
import { startServers } from '../test/support/start-servers.ts'
import { tell } from './report.ts'

// What events cost: deliveries in the process, the relay's rate from SQLite to Redis and Kafka, the way from a commit to a hundred WebSocket clients,
// and how much slower commits get with a bus attached. Rounds with and without take turns, and the least disturbed of each counts.
// npx tsx bench/events.ts [memory] [relay] [websocket] [commits]

const folder = mkdtempSync(join(tmpdir(), 'mplp-bench-'))
const chosen = process.argv.slice(2)
const PARTS = { memory: onMemory, relay: relayed, websocket: toClients, commits: commitsBeside }

async function main(): Promise<void> {
  const wanted = Object.entries(PARTS).filter(([name]) => chosen.length === 0 || chosen.includes(name))
  const servers = await startServers({ redis: true, kafka: true, postgres: true })
  try {
    const met = `redis ${servers.redis?.version}, kafka ${servers.kafka?.version}`
    for (const [name, measure] of wanted) tell(`Events: ${name}`, await measure(servers), met)
  } finally {
    await servers.stop()
    rmSync(folder, { recursive: true })
  }
}
type Servers = Awaited<ReturnType<typeof startServers>>
type Figures = Record<string, Record<string, number | string>>

async function onMemory(): Promise<Figures> {
  const batch = Array.from(
    { length: 500 },
    (_, i) => deliveriesOf({ ...entry(1), stream: 'g', revision: i, position: String(i) })[0] as Delivery,
  )
  const rates = []
  const bareRates = []
  for (let round = 0; round < 5; round++) {
    const bus = memoryTransport()
    let got = 0
    await bus.subscribe({}, () => void got++, { overflow: 'wait' })
    const began = performance.now()
    for (let i = 0; i < 1000; i++) await bus.publish(batch)
    await bus.close()
    rates.push(got / seconds(began))
    bareRates.push(emitted(batch))
  }
  const best = (of: readonly number[]) => Math.round(Math.max(...of))
  return {
    'memory, one subscriber': { 'deliveries/s': best(rates), wanted: 300_000 },
    'eventemitter3, one listener, nothing copied': { 'deliveries/s': best(bareRates) },
  }
}

/** What the emitter alone carries in a second. */
function emitted(batch: readonly Delivery[]): number {
  const emitter = new EventEmitter()
  let got = 0
  emitter.on('delivery', () => void got++)
  const began = performance.now()
  for (let i = 0; i < 1000; i++) for (const delivery of batch) emitter.emit('delivery', delivery)
  return got / seconds(began)
}

async function relayed({ redis, kafka, run }: Servers): Promise<Figures> {
  const events = 120_000
  const store = await filled(events)
  const urls = { Redis: redis?.url ?? '', Kafka: `kafka://${kafka?.url}/${run}-relay` }
  const figures: Figures = {}
  for (const [name, url] of Object.entries(urls)) {
    const options = { redis: { prefix: run, keep: { deliveries: 2 * events } }, kafka: { createTopic: true } }
    const { transport } = await openBus(url, options)
    const [began, busy] = [performance.now(), process.cpuUsage()]
    const running = relay({ store, transport, name, holder: thisHolder(name) })
    await running.flush()
    const { user, system } = process.cpuUsage(busy)
    figures[`relay SQLite -> ${name}`] = {
      'events/s': Math.round(events / seconds(began)),
      'µs of CPU per event': Math.round((user + system) / events),
      wanted: 8000,
    }
    await running.close()
    await transport.close()
  }
  await store.close()
  return figures
}

async function toClients(): Promise<Figures> {
  const [clients, perSecond, total] = [100, 100, 1500]
  const store = await sqliteBackend({ path: join(folder, 'live.db') })
  const transport = await websocketTransport({ history: historyOf(store, 'bench') })
  const running = relay({ store, transport, name: 'bench', holder: thisHolder('bench'), exclusive: false })
  const readers = child(new URL('events-clients.ts', import.meta.url), [transport.url, String(clients), String(total)])
  await readers.line('ready')
  const began = systemClock.now()
  const times: { asked: number; committed: number }[] = []
  for (let n = 0; n < total; n++) {
    await systemClock.sleep(Math.max(0, began + (n * 1000) / perSecond - systemClock.now()))
    const asked = machineMs()
    await store.commit({ stream: 'live', expected: n, entry: entry(1, { n }).body, inserts: [], puts: [], deletes: [] })
    times.push({ asked, committed: machineMs() })
  }
  readers.tell(JSON.stringify(times))
  const { asked, committed } = JSON.parse(await readers.line('{'))
  await readers.exited
  await running.close()
  await transport.close()
  await store.close()
  const name = '100 WebSocket clients, 100 events/s'
  return {
    [`${name}: from the commit's return`]: { ...committed, wanted: 'p99 50' },
    [`${name}: from before the commit`]: asked,
  }
}

async function commitsBeside({ redis, postgres, run }: Servers): Promise<Figures> {
  const stores: Record<string, () => Promise<Backend>> = {
    SQLite: () => sqliteBackend({ path: join(folder, 'commits.db') }),
    Postgres: () => postgresBackend({ url: postgres?.url ?? '', schema: `${run}_events` }),
  }
  const figures: Figures = {}
  for (const [name, open] of Object.entries(stores)) {
    const store = await open()
    const best = { alone: 0, memory: 0, Redis: 0 }
    for (let round = 0; round < 5; round++) {
      best.alone = Math.max(best.alone, await committing(store))
      best.memory = Math.max(best.memory, await beside(store, memoryTransport(), `${name}-memory`))
      const { transport } = await openBus(redis?.url ?? '', { redis: { prefix: `${run}-${name}` } })
      best.Redis = Math.max(best.Redis, await beside(store, transport, `${name}-redis`))
    }
    for (const bus of ['memory', 'Redis'] as const)
      figures[`commits on ${name} beside a relay to ${bus}`] = {
        'alone/s': Math.round(best.alone),
        'beside/s': Math.round(best[bus]),
        ratio: Number((best[bus] / best.alone).toFixed(2)),
        wanted: 0.7,
      }
    await store.close()
  }
  return figures
}

/** Commits while a relay carries them away, to one reader; what was there before has been carried already, and is not read. */
async function beside(store: Backend, transport: Transport, name: string): Promise<number> {
  const exclusive = transport.traits.processes === 'many'
  const running = relay({ store, transport, name, holder: thisHolder(name), exclusive })
  await running.flush()
  await transport.subscribe({}, () => undefined, { overflow: 'drop_oldest' })
  const rate = await committing(store)
  await running.flush()
  await running.close()
  await transport.close()
  return rate
}

/** Sixteen graphs for two seconds, each with one commit at a time of five values and three events. */
async function committing(store: Backend): Promise<number> {
  const began = performance.now()
  let commits = 0
  const graph = async (stream: string) => {
    for (let { revision } = await store.head(stream); seconds(began) < 2; revision++) {
      const puts = Array.from(
        { length: 5 },
        (_, i) => [`${stream}/${i}`, { n: revision, status: 'completed' }] as const,
      )
      await store.commit({ stream, expected: revision, entry: entry(3).body, inserts: [], puts, deletes: [] })
      commits++
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, i) => graph(`graph-${i}`)))
  return commits / seconds(began)
}

async function filled(events: number): Promise<Backend> {
  const store = await sqliteBackend({ path: join(folder, 'filled.db') })
  const graphs = Array.from({ length: 40 }, (_, i) => `graph-${i}`)
  for (let revision = 0; revision < events / 3 / graphs.length; revision++)
    await Promise.all(
      graphs.map((stream) =>
        store.commit({ stream, expected: revision, entry: entry(3).body, inserts: [], puts: [], deletes: [] }),
      ),
    )
  return store
}

/** An entry as a tick writes it: a few changes, and so many events. */
function entry(events: number, payload: object = {}) {
  const id = systemClock.uuid()
  const now = isoMicros(systemClock.now() * 1000)
  const step = { step_id: id, description: 'a step of the benchmark', status: 'completed', order_index: 7 }
  const changes = Array.from({ length: 3 }, (_, i) => ({
    key: `${id}/${i}`,
    before: { ...step, status: 'in_progress' },
    after: step,
  }))
  const told = Array.from({ length: events }, () => ({
    plan_id: id,
    event: {
      event_id: systemClock.uuid(),
      event_type: 'step_completed',
      event_family: 'pipeline_stage',
      timestamp: now,
      pipeline_id: id,
      stage_id: id,
      stage_status: 'completed',
      payload: {
        resource_type: 'step',
        resource_id: id,
        from_status: 'in_progress',
        to_status: 'completed',
        ...payload,
      },
    },
  }))
  const body = {
    commit_id: id,
    at: now,
    actor: 'bench',
    reason: 'bench',
    changes,
    events: told,
  }
  return { stream: 'g', revision: 1, position: '1', body }
}

/** Of the machine, not of this process: the readers have the same. */
const machineMs = () => Number(process.hrtime.bigint()) / 1e6
const seconds = (began: number) => (performance.now() - began) / 1000

await main()
