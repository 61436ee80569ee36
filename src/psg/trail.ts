import { type Json, roughBytes } from '../protocol/json.ts'
import type { AnyNode, Change, Changes, EntryBody, Kind } from './change.ts'

/**
 * Values that trail behind the journal: entries above `from` tell them. Most commits write their entry and no values; the one that finds too many
 * trailing writes them all, its own too.
 */
export interface Trail {
  /** The last revision whose values are all written; `undefined` when the newest one's are. */
  readonly from: number | undefined
  /**
   * May a commit add to it? None that deletes; and whoever opens the graph has to read all of it from the journal. Nor one whose values are large, or
   * not in memory: what no store takes must be refused now, and not when it is written with somebody else's commit.
   */
  accepts(changes: Changes): boolean
  /** An entry has come, with changes in these groups that leave behind so many bytes. */
  follow(revision: number, body: EntryBody, groups: Iterable<string>, bytes: number): void
  /** So much more trails than was told with the entries. */
  weigh(bytes: number): void
  /** Everything up to this revision is written, and what comes behind it may not be. */
  begin(from: number | undefined): void
  /** The groups whose values trail. */
  readonly groups: ReadonlySet<string>
  /** The keys of what trails. */
  keys(): ReadonlySet<string>
}

const MOST_VALUES = 8_000
/** Of whole values, since they are written whole, however little of them changes. Their text, also sealed, is at worst eight times as long. */
const MOST_BYTES = 3 * 1024 * 1024

export function trail(mostEntries: number, nodeAt: (kind: Kind, id: string) => AnyNode | undefined): Trail {
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
    accepts(changes) {
      if (entries >= mostEntries || keys.length + changes.length > MOST_VALUES) return false
      let sum = bytes
      for (const change of changes) {
        sum += bytesAfter(change, changes, nodeAt)
        if (sum > MOST_BYTES) return false
      }
      return true
    },
    begin,
    follow(revision, { changes, trails, events, reason }, touched, left) {
      if (!trails) return begin(undefined)
      from ??= revision - 1
      entries++
      bytes += left + reason.length
      for (const told of events) if ('event' in told) bytes += roughBytes(told.event as Json)
      for (const { key } of changes) keys.push(key)
      for (const group of touched) groups.add(group)
    },
    weigh(more) {
      bytes += more
    },
    keys: () => new Set(keys),
  }
}

/** At most so large is what a change leaves behind: infinitely, where it must not trail. */
function bytesAfter(change: Change, changes: Changes, nodeAt: (kind: Kind, id: string) => AnyNode | undefined): number {
  if (change.kind === 'node_delete') return Number.POSITIVE_INFINITY
  if (change.kind === 'node_add') return roughBytes(change.data as unknown as Json)
  const isUpdate = change.kind === 'node_update'
  const [kind, id, now] = isUpdate ? [change.node, change.id, change.set] : (['step', change.from, change.to] as const)
  const node = nodeAt(kind, id)
  if (node) return roughBytes(node.data as unknown as Json) + roughBytes(now as Json)
  const isAdded = changes.some((other) => other.kind === 'node_add' && other.id === id && other.node === kind)
  return isAdded ? roughBytes(now as Json) : Number.POSITIVE_INFINITY
}
