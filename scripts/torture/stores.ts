import { isDeepStrictEqual, parseArgs } from 'node:util'
import { systemClock } from '../../src/protocol/clock.ts'
import { digestOf } from '../../src/protocol/json.ts'
import type { Backend, Lease } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { child } from '../../test/support/child.ts'
import { ownFolder, releaseAll } from '../../test/support/processes.ts'
import { startServers } from '../../test/support/start-servers.ts'
import {
  type Acknowledged,
  blobIn,
  CURSOR_EVERY,
  cursorKey,
  type Life,
  passedKey,
  passingBlob,
  passingOf,
  passingValue,
  passingWrites,
  valuesAt,
  writeOf,
} from './stores-work.ts'

export interface StoreReport {
  readonly kills: number
  /** Commits that the store said had landed. */
  readonly acknowledged: number
  /** Commits that are there: those, and such as landed unheard. */
  readonly found: number
  /** Acknowledged, but not there. Must be 0. */
  readonly lost: number
  /** There, but not whole: an entry, value, blob, cursor or token that is not what its commit wrote. Must be 0. */
  readonly half: number
}

const STREAMS = ['a', 'b/1', 'b/2', 'c d', 'ü']

/** A process that commits is killed with SIGKILL at a random moment, over and over; after each death the store is opened and everything in it compared. */
export async function tortureStore(
  { url, options = {} }: { url: string; options?: Life['options'] },
  { kills, seed, lifeMs = 120 }: { kills: number; seed: number; lifeMs?: number },
): Promise<StoreReport> {
  const acknowledged = new Map<string, number>()
  const report = { kills: 0, acknowledged: 0, found: 0, lost: 0, half: 0 }
  const checked = new Map<string, number>()
  // A store that failed is left as it is: that says more than a further kill.
  while (report.kills < kills && report.lost + report.half === 0) {
    const life: Life = { url, options, seed, streams: STREAMS }
    const worker = child(new URL('stores-child.ts', import.meta.url), [JSON.stringify(life)])
    // Every third one dies while it is still opening and acquiring, the others when they are at work.
    await worker.line(report.kills % 3 === 2 ? 'up' : 'commit')
    await Promise.race([systemClock.sleep(systemClock.random() * lifeMs), worker.exited])
    await worker.kill()
    if ((await worker.exited) !== 'SIGKILL')
      throw new Error(`the child ended before it was killed: ${await worker.exited}`)
    report.kills++
    for (const line of worker.lines.filter((one) => /^\[.*\]$/.test(one))) {
      const [what, stream, count] = JSON.parse(line) as Acknowledged
      acknowledged.set(`${what} ${stream}`, count)
    }
    const store = await openStore(url, options)
    try {
      for (const stream of STREAMS) await examine(store, stream)
    } finally {
      await store.close()
    }
  }
  for (const stream of STREAMS) {
    report.acknowledged += acknowledged.get(`commit ${stream}`) ?? 0
    report.found += checked.get(stream) ?? 0
  }
  return report

  async function examine(store: Backend, stream: string): Promise<void> {
    const said = (what: Acknowledged[0]) => acknowledged.get(`${what} ${stream}`) ?? 0
    // A server may still be busy with what the dead had sent: from here on its fence keeps that out, as for any successor.
    const lease = await held(store, stream)
    const passing = await held(store, passingOf(stream))
    const { revision, token } = await store.head(stream)
    const values = await valuesOf(store, stream)
    report.lost += Math.max(0, said('commit') - revision)
    const before = checked.get(stream) ?? 0
    const whole = [
      revision <= Math.max(before, said('commit')) + 1, // one was under way
      token > said('token'),
      isDeepStrictEqual(values, valuesAt(seed, stream, revision)),
      isCursor((await store.getMany([cursorKey(stream)])).get(cursorKey(stream)), said('cursor'), revision),
      isCursor(await store.get(cursorKey(stream)), said('own'), revision),
    ]
    let next = before + 1
    for await (const entry of store.read(stream, { after: next - 1 })) {
      const expected = writeOf(seed, stream, next)
      const blob = await store.getBlob(blobIn(entry.body))
      whole.push(
        entry.revision === next && isDeepStrictEqual(entry.body, expected.write.entry),
        blob !== undefined && digestOf(blob) === digestOf(expected.blob),
      )
      next++
    }
    whole.push(next === revision + 1, await isPassing(store, stream, said('swept')))
    const rounds = await passedIn(store, stream)
    const known = checked.get(passedKey(stream)) ?? 0
    whole.push(rounds >= said('passed'), rounds <= Math.max(known, said('passed')) + 1)
    checked.set(passedKey(stream), rounds)
    checked.set(stream, next - 1)
    report.half += whole.filter((ok) => !ok).length
    await store.release(lease)
    await store.release(passing)
  }
}

async function held(store: Backend, stream: string): Promise<Lease> {
  const lease = await store.acquire(stream, thisHolder(`${process.pid}`), 600_000)
  if (lease === undefined) throw new Error(`${stream} is still held by a process that was killed`)
  return lease
}

/** How many rounds are over. */
const passedIn = async (store: Backend, stream: string): Promise<number> =>
  ((await store.getMany([passedKey(stream)])).get(passedKey(stream)) as number | undefined) ?? 0

/** Of what is forgotten again and again nothing is left but what the present round has written, in values, journal and feed. */
async function isPassing(store: Backend, stream: string, swept: number): Promise<boolean> {
  const { revision } = await store.head(passingOf(stream))
  const written = passingWrites(stream, (await passedIn(store, stream)) + 1).slice(0, revision)
  const bodies: unknown[] = []
  for await (const { body } of store.read(passingOf(stream))) bodies.push(body)
  const fed: unknown[] = []
  for await (const entry of store.feed()) if (entry.stream === passingOf(stream)) fed.push(entry.body)
  const values: unknown[] = []
  for await (const pair of store.scan(passingValue(stream, 0).slice(0, -1))) values.push(pair)
  const isSwept = swept === 0 || (await store.getBlob(digestOf(passingBlob(stream, swept)))) === undefined
  const entries = written.map(({ entry }) => entry)
  return (
    isSwept &&
    isDeepStrictEqual([bodies, fed], [entries, entries]) &&
    isDeepStrictEqual(
      values,
      written.flatMap(({ puts }) => puts),
    )
  )
}

async function valuesOf(store: Backend, stream: string): Promise<Map<string, unknown>> {
  const values = new Map<string, unknown>()
  for (const part of ['new', 'put'])
    for await (const [key, value] of store.scan(`${stream}/${part}/`)) values.set(key, value)
  return values
}

/** A cursor that was acknowledged is there, or a later one; none is ahead of the stream. */
const isCursor = (value: unknown, said: number, revision: number): boolean =>
  value === undefined
    ? said === 0
    : typeof value === 'number' && value >= said && value <= revision && value % CURSOR_EVERY === 0

const BACKENDS = ['file', 'sqlite', 'redis', 'postgres'] as const

/** `--kills 200`, `--backend sqlite` (may be repeated), `--seed 1`, `--life 120` (milliseconds a child lives at most). The last line is JSON. */
export async function run(args: readonly string[]): Promise<boolean> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args: [...args],
    options: { kills: text, seed: text, life: text, backend: { ...text, multiple: true } },
  })
  const kills = Number(values.kills ?? 200)
  const seed = Number(values.seed ?? 1)
  const chosen = BACKENDS.filter((name) => values.backend === undefined || values.backend.includes(name))
  const unknown = values.backend?.find((name) => !BACKENDS.includes(name as (typeof BACKENDS)[number]))
  if (unknown !== undefined || !(kills > 0) || !Number.isInteger(seed))
    throw new Error(`--kills and --seed take a number, --backend one of ${BACKENDS.join(', ')}`)

  const servers = await startServers({ redis: chosen.includes('redis'), postgres: chosen.includes('postgres') })
  const folder = ownFolder('torture')
  const targets = {
    file: { url: `file:${folder}/files` },
    sqlite: { url: `sqlite:${folder}/state.db` },
    redis: { url: servers.redis?.url ?? '', options: { prefix: servers.run } },
    postgres: { url: servers.postgres?.url ?? '', options: { schema: servers.run } },
  }
  const backends: Record<string, StoreReport> = {}
  try {
    for (const name of chosen) {
      backends[name] = await tortureStore(targets[name], { kills, seed, lifeMs: Number(values.life ?? 120) })
      process.stderr.write(`${name}: ${JSON.stringify(backends[name])}\n`)
    }
  } finally {
    await servers.stop()
    await releaseAll()
  }
  const all = Object.values(backends)
  const ok = all.every(({ acknowledged, lost, half }) => acknowledged > 0 && lost + half === 0)
  const total = all.reduce((sum, report) => sum + report.kills, 0)
  console.log(JSON.stringify({ torture: 'stores', kills: total, ok, backends }))
  return ok
}
