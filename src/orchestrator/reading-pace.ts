import { roughBytes } from '../protocol/json.ts'
import type { Entry } from '../vsl/backend.ts'

/** About so many bytes of the journal one reader is given at once, or one entry: a fraction of a millisecond's work. */
const STRETCH_BYTES = 32 * 1024
/** So many readers have their stretch in one turn: fewer would fall far behind a process that is busy, whose turns are long. */
const READERS_A_TURN = 4

/**
 * Entries for somebody who may want all that ever happened. A store gives them as fast as they are taken, and a socket that is read takes them as
 * fast: readers would keep everybody else from the thread. All of them together are given a few stretches between two turns of the event loop, one
 * reader after another. Each waits before it reads: who has come to the end has its stretch when there is news.
 */
export async function* paced(entries: AsyncIterable<Entry>): AsyncIterable<Entry> {
  await stretch()
  let left = STRETCH_BYTES
  for await (const entry of entries) {
    yield entry
    left -= roughBytes(entry.body)
    if (left > 0) continue
    await stretch()
    left = STRETCH_BYTES
  }
}

const waiting: (() => void)[] = [] // of the whole process: it has one thread

const stretch = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(giveNext)
  })

function giveNext(): void {
  for (const next of waiting.splice(0, READERS_A_TURN)) next()
  if (waiting.length > 0) setImmediate(giveNext)
}
