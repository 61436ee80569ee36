import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Bus, openBus, openSource } from '../../src/bus/bus.ts'
import type { Delivery, Source } from '../../src/bus/transport.ts'
import { relay } from '../../src/orchestrator/relay.ts'
import { historyOf } from '../../src/orchestrator/relay-history.ts'
import { eventsIn } from '../../src/psg/told.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { ids, outOfOrder, until } from '../contracts/transport-contract.ts'
import { freePort } from '../support/private-server.ts'
import { freshPrefix, freshTopic, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { tell } from './relay-support.ts'

describe('a relay from SQLite', () => {
  itNeeds('redis')('reaches a Redis, also when another relay goes on', (url) =>
    goesOver((store) => {
      const redis = { prefix: freshPrefix() }
      return { open: () => openBus(url, { redis, ...historyFor(store) }), source: () => openSource(url, { redis }) }
    }),
  )

  itNeeds('real kafka')(
    'reaches a Kafka, also when another relay goes on',
    (brokers) =>
      goesOver((store) => {
        const url = `kafka://${brokers}/${freshTopic()}`
        const kafka = { createTopic: true }
        return { open: () => openBus(url, { kafka, ...historyFor(store) }), source: () => openSource(url, { kafka }) }
      }),
    60_000,
  )

  it('reaches WebSocket clients, also when another relay and server go on', async () => {
    const port = await freePort()
    await goesOver((store) => {
      const url = `ws://127.0.0.1:${port}/events`
      return {
        open: () => openBus(url, { ...historyFor(store), onError: () => undefined }),
        source: () => openSource(url, { onError: () => undefined }),
      }
    })
  })
})

/** Two relays, one after the other, with commits before, during and between them. */
async function goesOver(
  carrier: (store: Backend) => { open: () => Promise<Bus>; source: () => Promise<Source> },
): Promise<void> {
  const store = await sqliteBackend({ path: join(tempFolder(), 'state.db') })
  const { open, source } = carrier(store)
  const got: Delivery[] = []
  let listener: Source | undefined
  let bus: Bus | undefined
  for (const id of ['first', 'second']) {
    await bus?.transport.close()
    for (let i = 0; i < 100; i++) await tell(store, `g${i % 7}`, 1 + (i % 2))
    bus = await open()
    listener ??= await source()
    if (id === 'first') await listener.subscribe({}, (d) => void got.push(d), { after: '' })
    const running = relay({ store, ...bus, holder: thisHolder(id) })
    for (let i = 0; i < 100; i++) await tell(store, `g${i % 7}`)
    await running.flush()
    await running.close()
  }
  const committed: string[] = []
  for await (const entry of store.feed()) for (const { event } of eventsIn(entry)) committed.push(event.event_id)
  await until(() => new Set(ids(got)).size >= committed.length)
  expect([...new Set(ids(got))].sort()).toEqual(committed.sort())
  expect(outOfOrder(got)).toEqual([])
  await listener?.close()
  await bus?.transport.close()
  await store.close()
}

const historyFor = (store: Backend) => ({ history: (bus: string) => historyOf(store, bus) })
