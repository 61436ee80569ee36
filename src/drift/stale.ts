import type { Digest } from '../protocol/json.ts'
import { believed, type Desk } from './desk.ts'

/** On whose behalf something is read or written. */
export interface Reader {
  readonly run?: { readonly trace_id: string }
}

/** What each run has read, so that it does not write over what it has not. */
export interface Reads {
  /** A run has seen this content there; `undefined`: that there is nothing. */
  note(path: string, digest: Digest | undefined, reader: Reader): void
  /**
   * Is what lies there now something that the reader has not seen? Who has read the file must find what was read; who has not, what the graph
   * believes in.
   */
  isStale(path: string, found: Digest | undefined, reader: Reader): boolean
  forget(trace: string): void
}

/** A folder may serve runs of other contexts, whose end nobody tells us: the oldest give way, and are then held to what the graph believes. */
const MOST_RUNS = 10_000

export function reads(desk: Desk): Reads {
  const seen = new Map<string, Map<string, Digest | undefined>>()
  return {
    note(path, digest, { run }) {
      if (run === undefined) return
      const mine = seen.get(run.trace_id) ?? new Map()
      seen.set(run.trace_id, mine.set(path, digest))
      const [oldest] = seen.keys()
      if (seen.size > MOST_RUNS) seen.delete(oldest!)
    },
    isStale(path, found, { run }) {
      const mine = run && seen.get(run.trace_id)
      if (mine?.has(path)) return mine.get(path) !== found
      return desk.select.hasFile(path) && believed(desk, path)?.digest !== found
    },
    forget: (trace) => void seen.delete(trace),
  }
}
