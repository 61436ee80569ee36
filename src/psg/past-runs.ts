import type { Backend } from '../vsl/backend.ts'
import { INDEX, type Whereabouts } from './indexes.ts'

/** Where a run is that there is or was. */
export interface RunPlace extends Whereabouts {
  readonly run: string
}

interface TimedRun extends RunPlace {
  readonly submitted: number
}

const HOUR_MS = 3_600_000
/** What an id tells before it is chance. */
const FIRST_MS = Date.UTC(2020, 0, 1)
/** How far the clocks of those who submit may be apart. */
const AHEAD_MS = 60_000

/**
 * Every run whose id tells when it was submitted, the newest first. An id that we made begins with the time, so only as many rows are read as somebody
 * asks for: those of the last hour, of the four before it, and so on. Of ids that were chosen one in a thousand looks as if it told a time.
 */
export async function* timedRuns(store: Backend, now: number): AsyncIterable<TimedRun> {
  let span = HOUR_MS
  for (let to = now + AHEAD_MS; to > FIRST_MS; span *= 4) {
    const from = Math.max(FIRST_MS, to - span)
    const found: TimedRun[] = []
    for await (const row of rows(store, from, to)) found.push(row)
    yield* found.reverse()
    to = from
  }
}

/** All others: somebody has chosen their ids. */
export async function* untimedRuns(store: Backend, now: number): AsyncIterable<RunPlace> {
  yield* rows(store, 0, FIRST_MS)
  yield* rows(store, now + AHEAD_MS, Number.POSITIVE_INFINITY)
}

async function* rows(store: Backend, from: number, to: number): AsyncIterable<TimedRun> {
  const runs = INDEX.id('run', '')
  for await (const [key, where] of store.scan(runs, { after: INDEX.id('run', idFrom(from)) })) {
    const run = key.slice(runs.length)
    const submitted = Number.parseInt(run.slice(0, 8) + run.slice(9, 13), 16)
    if (!(submitted < to)) return
    yield { ...(where as Whereabouts), run, submitted }
  }
}

/** What the ids of a time begin with. */
function idFrom(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}`
}
