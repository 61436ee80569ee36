import type { Head } from './backend.ts'
import { refusalOf, type Verdict } from './grouped.ts'

interface Conditions {
  readonly stream: string
  readonly expected: number
  readonly fence?: number | undefined
  readonly inserts: readonly (readonly [key: string, value: unknown])[]
  readonly forget?: boolean | undefined
}

/** What the conditions of a write are held against. */
interface Known {
  exists(key: string): boolean
  /** The stream that has the newest entry of the store, if it has any. */
  newest(): string | undefined
}

/** Which condition of a write does not hold, if any: the fence is asked first, then the revision, then the inserts, then what may not be forgotten. */
export function judge(write: Conditions, head: Head, known: Known): Verdict {
  if (write.fence !== undefined && write.fence !== head.token) return { kind: 'fenced', token: head.token }
  if (write.expected !== head.revision) return { kind: 'conflict', actual: head.revision }
  const key = write.inserts.find(([inserted]) => known.exists(inserted))?.[0]
  if (key !== undefined) return { kind: 'exists', key }
  return write.forget && known.newest() === write.stream ? { kind: 'newest' } : { kind: 'landed' }
}

/** Throws what `commit` throws when a condition does not hold. */
export function refuseIfStale(write: Conditions, head: Head, known: Known): void {
  const verdict = judge(write, head, known)
  const refusal = verdict.kind === 'landed' ? undefined : refusalOf({ ...write, fence: write.fence }, verdict)
  if (refusal) throw refusal
}
