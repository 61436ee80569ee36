import { type Json, roughBytes } from '../protocol/json.ts'
import type { AnyNode, Changes, EntryBody, Kind } from './change.ts'
import type { Delta } from './delta.ts'
import { storeKey } from './node.ts'

const MOST_VALUES = 8_000
/** Of whole values, since they are written whole, however little of them changes. Their text, also sealed, is at worst eight times as long. */
const MOST_BYTES = 3 * 1024 * 1024

/**
 * Values that trail behind the journal: entries above `from` tell them. Most commits write their entry and no values; the one that finds too many
 * trailing writes them all, its own too.
 */
export class Trail {
  readonly #graph: string
  readonly #mostEntries: number
  /** Group, kind and id of each, one behind the other: kept as keys they would be most of what a step leaves in memory. One may come again and again. */
  readonly #places: string[] = []
  readonly #groups = new Map<string, Span>()
  #entries = 0
  #bytes = 0
  #from: number | undefined

  constructor(graph: string, mostEntries: number) {
    this.#graph = graph
    this.#mostEntries = mostEntries
  }

  /** The last revision whose values are all written; `undefined` when the newest one's are. */
  get from(): number | undefined {
    return this.#from
  }

  /** Where the entries are that tell what trails of these groups, if anything does. */
  spanOf(groups: readonly string[]): Readonly<Span> | undefined {
    const spans = groups.flatMap((group) => this.#groups.get(group) ?? [])
    if (spans.length === 0) return undefined
    return { first: Math.min(...spans.map(({ first }) => first)), last: Math.max(...spans.map(({ last }) => last)) }
  }

  /** The keys of what trails. */
  keys(): ReadonlySet<string> {
    const keys = new Set<string>()
    for (let at = 0; at < this.#places.length; at += 3) {
      const [group, kind, id] = this.#places.slice(at, at + 3) as [string, Kind, string]
      keys.add(storeKey(this.#graph, { group, kind, id }))
    }
    return keys
  }

  /** May a commit add to it? None that deletes; and whoever opens the graph has to read all of it from the journal. */
  accepts(changes: Changes): boolean {
    if (this.#entries >= this.#mostEntries || this.#places.length / 3 + changes.length > MOST_VALUES) return false
    for (const { kind } of changes) if (kind === 'node_delete') return false
    return true
  }

  /** And may it add so many bytes? What no store takes must be refused now, and not when it is written with somebody else's commit. */
  bears(bytes: number): boolean {
    return this.#bytes + bytes <= MOST_BYTES
  }

  /** Everything up to this revision is written, and what comes behind it may not be. */
  begin(from: number | undefined): void {
    this.#places.length = 0
    this.#groups.clear()
    this.#entries = 0
    this.#bytes = 0
    this.#from = from
  }

  /** An entry has come, with changes at these places that leave behind so many bytes. */
  follow(revision: number, { trails, events, reason }: EntryBody, places: readonly Place[], bytes: number): void {
    if (!trails) return this.begin(undefined)
    this.#from ??= revision - 1
    this.#entries++
    this.#bytes += bytes + reason.length
    for (const told of events) if ('event' in told) this.#bytes += roughBytes(told.event as Json)
    for (const { group, kind, id } of places) {
      this.#places.push(group, kind, id)
      const span = this.#groups.get(group)
      if (span) span.last = revision
      else this.#groups.set(group, { first: revision, last: revision })
    }
  }

  /** So much more trails than was told with the entries. */
  weigh(bytes: number): void {
    this.#bytes += bytes
  }
}

/** Revisions. */
interface Span {
  readonly first: number
  last: number
}

/** Where a node lies. */
type Place = Pick<AnyNode, 'group' | 'kind' | 'id'>

/** How many bytes of values changes leave behind. */
export function bytesLeft(deltas: readonly Delta[]): number {
  let bytes = 0
  for (const delta of deltas) bytes += roughBytes(nodeLeft(delta).data as unknown as Json)
  return bytes
}

/** What a change leaves behind, or took away. */
export const nodeLeft = ({ before, after }: Delta): AnyNode => (after ?? before)!
