import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openSource } from '../../src/bus/bus.ts'
import type { Source } from '../../src/bus/transport.ts'
import { systemClock } from '../../src/protocol/clock.ts'
import { eventsIn } from '../../src/psg/told.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { child } from '../../test/support/child.ts'
import { freePort } from '../../test/support/private-server.ts'
import { startServers } from '../../test/support/start-servers.ts'

/** What a child is told. */
export interface Life {
  readonly path: string
  readonly redis: string
  readonly prefix: string
  readonly kafka: string
  readonly websocket: string
  readonly graphs: readonly string[]
  /** It ends itself at the n-th confirmation of this bus, before the position moves; never when empty. */
  readonly dieOn: '' | BusName
  readonly dieAfter: number
}
type BusName = (typeof BUSES)[number]

export interface BusReport {
  readonly committed: number
  /** Different events that arrived. */
  readonly received: number
  readonly repeated: number
  readonly lost: number
  readonly invented: number
  /** First deliveries that came after a later one of their graph. */
  readonly out_of_order: number
}

const BUSES = ['redis', 'kafka', 'websocket'] as const
const GRAPHS = Array.from({ length: 8 }, (_, i) => `graph-${i}`)

/**
 * A process that commits on SQLite and relays to Redis, Kafka and WebSocket clients is killed with SIGKILL, at random and between a bus's confirmation
 * and the position's commit. Consumers that live through it all must end with what was committed: no less, no more, in order.
 */
export async function tortureBus(options: {
  readonly kills: number
  readonly lifeMs: number
  /** Where Redis is, and the prefix to use there; which topic to use. */
  readonly redis: string
  readonly prefix: string
  readonly kafka: string
}): Promise<Record<BusName, BusReport>> {
  const { redis, prefix, kafka } = options
  const folder = mkdtempSync(join(tmpdir(), 'mplp-torture-'))
  const base = {
    path: join(folder, 'state.db'),
    ...{ redis, prefix, kafka },
    websocket: `ws://127.0.0.1:${await freePort()}/events`,
    graphs: GRAPHS,
  }
  const sources: Source[] = []
  try {
    const tallies = Object.fromEntries(BUSES.map((bus) => [bus, tally()])) as Record<BusName, Tally>
    for (let kills = 0; kills < options.kills; kills++) {
      // Every second life ends by its own hand, on each bus in turn; the others at a moment of our choosing.
      const dieOn = kills % 2 === 0 ? '' : (BUSES[Math.floor(kills / 2) % BUSES.length] as BusName)
      const life: Life = { ...base, dieOn, dieAfter: 1 + Math.floor(systemClock.random() * 20) }
      const worker = child(new URL('bus-child.ts', import.meta.url), [JSON.stringify(life)])
      await worker.line('up')
      if (kills === 0) sources.push(...(await listen(base, tallies)))
      if (dieOn === '') {
        await systemClock.sleep(systemClock.random() * options.lifeMs)
        await worker.kill()
      } else if ((await worker.exited) !== 'SIGKILL') throw new Error('the child did not end itself')
      process.stderr.write(`killed ${kills + 1}${dieOn && ` between confirmation and position of ${dieOn}`}\n`)
    }
    const last = child(new URL('bus-child.ts', import.meta.url), [JSON.stringify({ ...base, dieOn: '', dieAfter: 0 })])
    await last.line('up')
    last.tell('finish')
    await last.line('flushed')
    const committed = await committedEvents(base.path)
    await patiently(() => BUSES.every((bus) => tallies[bus].seen.size >= committed.size))
    last.tell('end')
    await last.exited
    return Object.fromEntries(BUSES.map((bus) => [bus, judge(tallies[bus], committed)])) as Record<BusName, BusReport>
  } finally {
    for (const source of sources) await source.close()
    rmSync(folder, { recursive: true })
  }
}

/** `--kills 50`, `--life 400` (milliseconds a child lives at most). The last line is JSON. */
export async function run(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({ args: [...args], options: { kills: { type: 'string' }, life: { type: 'string' } } })
  const kills = Number(values.kills ?? 50)
  const servers = await startServers({ redis: true, kafka: true })
  const buses = await tortureBus({
    kills,
    lifeMs: Number(values.life ?? 400),
    redis: servers.redis?.url ?? '',
    prefix: servers.run,
    kafka: `kafka://${servers.kafka?.url}/${servers.run}`,
  }).finally(() => servers.stop())
  const ok = Object.values(buses).every(
    ({ committed, lost, invented, out_of_order }) => committed > 0 && lost + invented + out_of_order === 0,
  )
  console.log(JSON.stringify({ torture: 'bus', kills, ok, buses }))
  return ok
}

interface Tally {
  readonly seen: Set<string>
  arrivals: number
  outOfOrder: number
  readonly last: Map<string, readonly [revision: number, index: number]>
}
const tally = (): Tally => ({ seen: new Set(), arrivals: 0, outOfOrder: 0, last: new Map() })

async function listen(base: Omit<Life, 'dieOn' | 'dieAfter'>, tallies: Record<BusName, Tally>): Promise<Source[]> {
  const urls = { redis: base.redis, kafka: base.kafka, websocket: base.websocket }
  const sources: Source[] = []
  for (const bus of BUSES) {
    const count = tallies[bus]
    const source = await openSource(urls[bus], { redis: { prefix: base.prefix }, onError: () => undefined })
    sources.push(source)
    const handler: Parameters<Source['subscribe']>[1] = ({ graph_id, revision, index, event }) => {
      count.arrivals++
      if (count.seen.has(event.event_id)) return
      count.seen.add(event.event_id)
      const [r, i] = count.last.get(graph_id) ?? [0, -1]
      if (revision < r || (revision === r && index < i)) count.outOfOrder++
      count.last.set(graph_id, [revision, index])
    }
    await source.subscribe({}, handler, { after: '' })
  }
  return sources
}

async function committedEvents(path: string): Promise<Set<string>> {
  const store = await sqliteBackend({ path })
  const events = new Set<string>()
  for await (const entry of store.feed()) for (const { event } of eventsIn(entry)) events.add(event.event_id)
  await store.close()
  return events
}

function judge({ seen, arrivals, outOfOrder }: Tally, committed: ReadonlySet<string>): BusReport {
  const lost = [...committed].filter((id) => !seen.has(id)).length
  const invented = [...seen].filter((id) => !committed.has(id)).length
  return {
    committed: committed.size,
    received: seen.size,
    repeated: arrivals - seen.size,
    lost,
    invented,
    out_of_order: outOfOrder,
  }
}

/** What has not come after a minute will not come. */
async function patiently(isTrue: () => boolean): Promise<void> {
  for (const until = systemClock.now() + 60_000; !isTrue() && systemClock.now() < until; ) await systemClock.sleep(20)
}
