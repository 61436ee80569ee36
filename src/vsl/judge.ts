import type { Head } from './backend.ts'
import type { PreparedWrite, Verdict } from './grouped.ts'

/** Which condition of a write does not hold, if any: the fence is asked first, then the revision, then the inserts. */
export function judge(
  write: Pick<PreparedWrite, 'fence' | 'expected' | 'inserts'>,
  head: Head,
  exists: (key: string) => boolean,
): Verdict {
  if (write.fence !== undefined && write.fence !== head.token) return { kind: 'fenced', token: head.token }
  if (write.expected !== head.revision) return { kind: 'conflict', actual: head.revision }
  const key = write.inserts.find(([inserted]) => exists(inserted))?.[0]
  return key === undefined ? { kind: 'landed' } : { kind: 'exists', key }
}
