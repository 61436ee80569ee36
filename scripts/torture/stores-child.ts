/** Commits without end on several streams at once, under leases, and says what was acknowledged, until it is killed. */

import { digestOf } from '../../src/protocol/json.ts'
import type { Lease, Write } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import {
  type Acknowledged,
  CURSOR_EVERY,
  cursorKey,
  type Life,
  PASSING,
  passedKey,
  passingBlob,
  passingOf,
  passingWrites,
  writeOf,
} from './stores-work.ts'

const { url, options, seed, streams } = JSON.parse(process.argv[2] ?? '') as Life
const say = (...line: Acknowledged) => process.stdout.write(`${JSON.stringify(line)}\n`)
const store = await openStore(url, { ...options, ...(url.startsWith('file:') ? {} : { timeoutMs: 10_000 }) })
process.stdout.write('up\n')

async function held(stream: string): Promise<Lease> {
  const lease = await store.acquire(stream, thisHolder(`${process.pid}`), 600_000)
  if (lease === undefined) throw new Error(`${stream} is still held by a process that was killed`)
  return lease
}

/** Half a round, from where the one before died. */
async function pass(stream: string, fence: number): Promise<void> {
  const round = (((await store.getMany([passedKey(stream)])).get(passedKey(stream)) as number | undefined) ?? 0) + 1
  const { revision } = await store.head(passingOf(stream))
  const [last, ...others] = passingWrites(stream, round).toReversed() as [Write, ...Write[]]
  if (revision < PASSING) {
    await store.putBlob(passingBlob(stream, round))
    for (const write of others.toReversed().slice(revision)) await store.commit({ ...write, fence })
    return
  }
  await store.commit({ ...last, fence }) // the stream beside it has newer entries by now
  say('passed', stream, round)
  await store.forgetBlobs([digestOf(passingBlob(stream, round))], 0)
  say('swept', stream, round)
}

await Promise.all(
  streams.map(async (stream) => {
    const lease = await held(stream)
    const passing = await held(passingOf(stream))
    say('token', stream, lease.token)
    for (let { revision } = await store.head(stream); ; ) {
      const { write, blob } = writeOf(seed, stream, revision + 1)
      await store.putBlob(blob)
      await store.commit({ ...write, fence: lease.token })
      revision++
      say('commit', stream, revision)
      if (revision % CURSOR_EVERY !== 0) continue
      const puts = [[cursorKey(stream), revision]] as const
      await store.commit({ stream, expected: revision, fence: lease.token, inserts: [], puts, deletes: [] })
      say('cursor', stream, revision)
      await store.set(cursorKey(stream), revision)
      say('own', stream, revision)
      await pass(stream, passing.token)
    }
  }),
)
