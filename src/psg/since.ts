import type { Kind, Stored } from './change.ts'
import { storedAfter } from './field-change.ts'
import { type Difference, difference, entriesOf, type Journal } from './history.ts'
import { placeOf } from './node.ts'

/** A revision, what there was at it, and what has become of it. */
export interface Since {
  readonly kinds: ReadonlySet<Kind>
  readonly differences: readonly Difference[]
}

/** What differs between each of these revisions, given in their order, and a later one. The journal is read twice, however many they are. */
export async function* eachSince(journal: Journal, revisions: readonly number[], to: number): AsyncIterable<Since> {
  const last = new Map<
    string,
    { readonly kind: Kind; readonly revision: number; readonly stored: Stored | undefined }
  >()
  for await (const { revision, body } of entriesOf(journal, 0, to))
    for (const change of body.changes) {
      const known = last.get(change.key)
      const kind = known?.kind ?? placeOf(change.key).kind
      last.set(change.key, { kind, revision, stored: storedAfter(change, known?.stored) })
    }

  const values = new Map<string, Stored | undefined>()
  const at = (reached: number): Since => {
    const kinds = new Set<Kind>()
    const differences: Difference[] = []
    for (const [key, { kind, revision, stored }] of last) {
      const then = values.get(key)
      if (then && !then.deleted) kinds.add(kind)
      if (revision > reached) differences.push(...difference(key, then, stored))
    }
    return { kinds, differences }
  }
  let next = 0
  for await (const { revision, body } of entriesOf(journal, 0, revisions.at(-1))) {
    while (next < revisions.length && revisions[next]! < revision) yield at(revisions[next++]!)
    for (const change of body.changes) values.set(change.key, storedAfter(change, values.get(change.key)))
  }
  while (next < revisions.length) yield at(revisions[next++]!)
}
