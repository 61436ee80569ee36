import type { Clock } from '../protocol/clock.ts'
import {
  FencedOut,
  InvalidInput,
  KeyExists,
  OutcomeUnknown,
  RevisionConflict,
  Unavailable,
} from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import type { Backend, Write } from './backend.ts'
import { refuseUnlessObject } from './check-input.ts'
import { checkSettling, checkStores } from './check-options.ts'

export interface SettleOptions {
  readonly clock: Clock
  readonly signal?: AbortSignal
  /** How long a lost reply is asked after. Default 30,000. */
  readonly patienceMs?: number
}

const PATIENCE_MS = 30_000
const FIRST_WAIT_MS = 20
const LONGEST_WAIT_MS = 1_000

/**
 * Commits, and returns only when it is known that this write landed, once. A lost reply is answered by submitting the same write again, and every
 * refusal first by looking whether the entry that stands in the way is our own, by its `commit_id`. Throws what `commit` throws; OutcomeUnknown only
 * when the store stayed silent for `patienceMs`, when the signal is aborted in doubt, or when a write without an entry, which nobody can recognise,
 * is refused after a lost reply.
 */
export async function commitOnce(store: Backend, write: Write, options: SettleOptions): Promise<void> {
  checkStores({ store })
  refuseUnlessObject('write', 'write', write)
  checkSettling(options)
  if (write.entry !== undefined && commitId(write.entry) === undefined)
    throw new InvalidInput('write', [
      { path: 'entry.commit_id', rule: 'commit-id', message: 'is not text, so the write could not be known again' },
    ])
  options.signal?.throwIfAborted()
  return settleWrite(store, write, options)
}

/** The same, for those who know what they give: every commit of a graph goes through here. */
export async function settleWrite(store: Backend, write: Write, options: SettleOptions): Promise<void> {
  const { clock, signal, patienceMs = PATIENCE_MS } = options
  let left = patienceMs // not reckoned by the clock, which may be set meanwhile
  let doubt: unknown
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const asked = performance.now()
    try {
      return await submit(store, write, doubt !== undefined)
    } catch (error) {
      if (error instanceof OutcomeUnknown) doubt = error
      else if (doubt === undefined || !(error instanceof Unavailable)) throw error
    }
    left -= performance.now() - asked + wait
    if (left < 0) throw new OutcomeUnknown(write.stream, { cause: doubt })
    try {
      await clock.sleep(wait * (0.5 + clock.random()), signal) // uneven, or all who waited for a server would meet again
    } catch (reason) {
      throw new OutcomeUnknown(write.stream, { cause: reason })
    }
  }
}

async function submit(store: Backend, write: Write, doubted: boolean): Promise<void> {
  try {
    await store.commit(write)
  } catch (error) {
    const refused = error instanceof RevisionConflict || error instanceof FencedOut || error instanceof KeyExists
    if (!refused) throw error
    if (write.entry === undefined && doubted) throw new OutcomeUnknown(write.stream, { cause: error })
    // Also the first time: clients resend by themselves.
    if (write.entry === undefined || !(await isOurs(store, write))) throw error
  }
}

async function isOurs(store: Backend, { stream, expected, entry: ours }: Write): Promise<boolean> {
  try {
    for await (const entry of store.read(stream, { after: expected })) return commitId(entry.body) === commitId(ours)
    return false
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    throw new OutcomeUnknown(stream, { cause: error })
  }
}

const commitId = (entry: Json | undefined): string | undefined =>
  isObject(entry) && typeof entry.commit_id === 'string' ? entry.commit_id : undefined
