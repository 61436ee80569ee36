import type { Clock } from '../protocol/clock.ts'
import { OutcomeUnknown, RevisionConflict } from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import type { Backend, Write } from './backend.ts'

/** How long a lost reply is asked after before the caller is told that nobody knows. */
const PATIENCE_MS = 30_000
const FIRST_WAIT_MS = 20
const LONGEST_WAIT_MS = 1_000

/**
 * Commits a write whose entry carries a `commit_id`, and does not return before it is known whether it landed: a lost reply is answered by
 * submitting the same write again, and a conflict by looking at who wrote the entry in its place. Throws what `commit` throws; OutcomeUnknown
 * only when the store stayed silent for 30 seconds.
 */
export async function commitOnce(store: Backend, write: Write & { readonly entry: Json }, { clock, signal }: { clock: Clock; signal?: AbortSignal }): Promise<void> {
  const deadline = clock.now() + PATIENCE_MS
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      return await store.commit(write)
    } catch (error) {
      if (error instanceof RevisionConflict && (await isOurs(store, write))) return
      if (!(error instanceof OutcomeUnknown) || clock.now() + wait > deadline) throw error
    }
    await clock.sleep(wait, signal)
  }
}

/** Clients resend by themselves: the entry that we lost against may be our own. */
async function isOurs(store: Backend, write: Write & { readonly entry: Json }): Promise<boolean> {
  for await (const entry of store.read(write.stream, { after: write.expected })) return commitId(entry.body) === commitId(write.entry)
  return false
}

const commitId = (entry: Json): unknown => (isObject(entry) ? entry.commit_id : undefined)
