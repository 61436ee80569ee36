import type { Head } from './backend.ts'
import { refusalOf, type Verdict } from './grouped.ts'

interface Conditions {
  readonly stream: string
  readonly expected: number
  readonly fence?: number | undefined
  readonly inserts: readonly (readonly [key: string, value: unknown])[]
}

/** Which condition of a write does not hold, if any: the fence is asked first, then the revision, then the inserts. */
export function judge(write: Conditions, head: Head, exists: (key: string) => boolean): Verdict {
  if (write.fence !== undefined && write.fence !== head.token) return { kind: 'fenced', token: head.token }
  if (write.expected !== head.revision) return { kind: 'conflict', actual: head.revision }
  const key = write.inserts.find(([inserted]) => exists(inserted))?.[0]
  return key === undefined ? { kind: 'landed' } : { kind: 'exists', key }
}

/** Throws what `commit` throws when a condition does not hold. */
export function refuseIfStale(write: Conditions, head: Head, exists: (key: string) => boolean): void {
  const verdict = judge(write, head, exists)
  const refusal = verdict.kind === 'landed' ? undefined : refusalOf({ ...write, fence: write.fence }, verdict)
  if (refusal) throw refusal
}
