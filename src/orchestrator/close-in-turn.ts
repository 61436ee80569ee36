import type { Clock } from '../protocol/clock.ts'
import { Unavailable } from '../protocol/errors.ts'
import { whenAborted } from '../protocol/on-abort.ts'
import { slept } from '../protocol/waiting.ts'

/** One of several that are closed together. */
export interface Part {
  close(): unknown
  /** Whom it may have to wait for. */
  readonly on: string
  /** What is left as it is when that takes too long. */
  readonly leaves: string
}

/** Who ends processes waits half a minute as a rule: by then all that can be told must have been. */
const WHOLE_S = 20
/** From when somebody is in a hurry. */
const HURRIED_S = 10

/**
 * One after another, within one time for all: each has what is left of it, but for a second that is kept for each of those behind it. A failure keeps
 * none of the rest from being tried. Then throws Unavailable, which says what was left as it is, or what the first of them threw.
 */
export async function closeInTurn(parts: readonly Part[], clock: Clock, hurry: AbortSignal): Promise<void> {
  const failures: unknown[] = []
  const left: Part[] = []
  const closed = new AbortController()
  let seconds = 0 // counted while they pass: a clock that is set takes nothing away
  let look = () => {}

  async function count(): Promise<void> {
    while (await slept(clock, 1_000, closed.signal)) {
      seconds++
      look()
    }
  }
  const hurried = () => {
    seconds = Math.max(seconds, WHOLE_S - HURRIED_S)
    look()
  }
  const isOver = (behind: number) =>
    new Promise<boolean>((resolve) => {
      look = () => seconds >= WHOLE_S - behind && resolve(false)
    })

  void count()
  const forget = whenAborted(hurry, hurried)
  for (const [i, part] of parts.entries())
    try {
      const isClosed = tried(part)
      if (!(await Promise.race([isClosed, isOver(parts.length - 1 - i)]))) left.push(part)
    } catch (error) {
      failures.push(error)
    }
  closed.abort()
  forget()
  const [first] = left
  if (first) {
    const what = left.map(({ leaves }) => leaves).join('; ')
    throw new Unavailable(first.on, `the close took too long, and left ${what}`, { cause: failures[0] })
  }
  if (failures.length > 0) throw failures[0]
}

async function tried({ close }: Part): Promise<true> {
  await close()
  return true
}
