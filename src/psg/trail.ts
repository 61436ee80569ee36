import { roughBytes } from '../protocol/json.ts'
import type { Changes, EntryBody, Stored } from './change.ts'
import { isFieldChange } from './field-change.ts'
import { placeOf, toStored } from './node.ts'
import type { GraphState } from './state.ts'

/**
 * Values that trail behind the journal: entries above `from` tell them. Most commits write their entry and no values; the one that finds too many
 * trailing writes them all, its own too.
 */
export interface Trail {
  /** The last revision whose values are all written; `undefined` when the newest one's are. */
  readonly from: number | undefined
  /** May a commit add to it? None that deletes; and whoever opens the graph has to read all of it from the journal. */
  accepts(changes: Changes): boolean
  /** An entry has come, with changes in these groups. */
  follow(revision: number, body: EntryBody, groups: Iterable<string>): void
  /** Everything up to this revision is written, and what comes behind it may not be. */
  begin(from: number | undefined): void
  /** The groups whose values trail. */
  readonly groups: ReadonlySet<string>
  /** What trails, as it now is; its groups must be loaded. */
  values(state: GraphState): readonly (readonly [string, Stored])[]
}

const MOST_VALUES = 8_000
const MOST_BYTES = 4 * 1024 * 1024

export function trail(mostEntries: number): Trail {
  const keys: string[] = [] // a key may stand there again and again: telling that costs more than it saves
  const groups = new Set<string>()
  let entries = 0
  let bytes = 0
  let from: number | undefined

  const begin = (revision: number | undefined) => {
    keys.length = 0
    groups.clear()
    entries = 0
    bytes = 0
    from = revision
  }
  return {
    groups,
    get from() {
      return from
    },
    accepts: (changes) =>
      entries < mostEntries &&
      keys.length + changes.length <= MOST_VALUES &&
      bytes <= MOST_BYTES &&
      changes.every(({ kind }) => kind !== 'node_delete'),
    begin,
    follow(revision, { changes, trails }, touched) {
      if (!trails) return begin(undefined)
      from ??= revision - 1
      entries++
      for (const change of changes) {
        keys.push(change.key)
        bytes += roughBytes(isFieldChange(change) ? change.now : (change.after?.data ?? null))
      }
      for (const group of touched) groups.add(group)
    },
    values: (state) =>
      [...new Set(keys)].map((key) => {
        const { kind, id } = placeOf(key)
        return [key, toStored(state.get(kind, id)!)]
      }),
  }
}
