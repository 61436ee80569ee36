/** Keys in UTF-8 byte order, to be walked page by page while they change. Whoever holds them knows which are there. */
export interface SortedKeys {
  /** One that is not there. */
  add(key: string): void
  /** One that is there. */
  delete(key: string): void
  /** At most `limit` keys that begin with `prefix`, those above `after` only. */
  page(prefix: string, after: string | undefined, limit: number): string[]
}

/**
 * The same, with what begins alike up to its first slash on a shelf of its own, so that whoever walks one graph, or one index, has only that put
 * in order. A key without a slash has a shelf to itself, so keys follow each other as their shelves do.
 */
export function shelvedKeys(initial: Iterable<string> = []): SortedKeys {
  const shelves = new Map<string, SortedKeys>()
  const names = sortedKeys()
  const shelfOf = (key: string): string => key.slice(0, key.indexOf('/') + 1 || key.length)

  function add(key: string): void {
    const name = shelfOf(key)
    const shelf = shelves.get(name)
    if (shelf) return shelf.add(key)
    shelves.set(name, sortedKeys([key]))
    names.add(name)
  }
  for (const key of initial) add(key)

  return {
    add,
    delete: (key) => shelves.get(shelfOf(key))!.delete(key), // an empty shelf stays: most are filled again
    page(prefix, after, limit) {
      if (prefix.includes('/')) return shelves.get(shelfOf(prefix))?.page(prefix, after, limit) ?? []
      const found: string[] = []
      let from = after === undefined ? undefined : shelfOf(after)
      if (from !== undefined) found.push(...(shelves.get(from)?.page(prefix, after, limit) ?? []))
      while (found.length < limit) {
        const next = names.page(prefix, from, SHELVES_AT_ONCE)
        if (next.length === 0) break
        for (const name of next)
          if (found.length < limit) found.push(...shelves.get(name)!.page(prefix, after, limit - found.length))
        from = next.at(-1)
      }
      return found
    },
  }
}
const SHELVES_AT_ONCE = 64

/** Chunks hold at most this many keys: putting one in moves a chunk's keys, never all. */
const CHUNK = 512

/** What was added is put in its place when somebody walks: most stores are written far more often than that. */
export function sortedKeys(initial: Iterable<string> = []): SortedKeys {
  let chunks: string[][] = []
  let placed = 0
  const fresh = new Set(initial)

  /** The last chunk that begins at or before the key; the first one for keys below all. */
  const chunkOf = (key: string): number =>
    Math.max(0, firstAbove(chunks.length, (i) => byBytes(chunks[i]![0]!, key) > 0) - 1)
  const placeIn = (chunk: readonly string[], key: string): number =>
    firstAbove(chunk.length, (i) => byBytes(chunk[i]!, key) >= 0)

  function place(key: string): void {
    const at = chunkOf(key)
    const chunk = chunks[at]
    if (!chunk) return void chunks.push([key])
    chunk.splice(placeIn(chunk, key), 0, key)
    if (chunk.length > CHUNK) chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  function placeFresh(): void {
    if (fresh.size < placed / 16) for (const key of fresh) place(key)
    else if (fresh.size > 0) {
      const all = [...chunks.flat(), ...fresh].sort(byBytes)
      chunks = []
      for (let at = 0; at < all.length; at += CHUNK / 2) chunks.push(all.slice(at, at + CHUNK / 2))
    }
    placed += fresh.size
    fresh.clear()
  }

  return {
    add: (key) => void fresh.add(key),
    delete(key) {
      if (fresh.delete(key)) return
      const at = chunkOf(key)
      const chunk = chunks[at]!
      chunk.splice(placeIn(chunk, key), 1)
      if (chunk.length === 0) chunks.splice(at, 1)
      placed--
    },
    page(prefix, after, limit) {
      placeFresh()
      const above = after !== undefined && byBytes(after, prefix) >= 0 ? after : undefined
      const start = above ?? prefix
      const found: string[] = []
      for (let at = chunkOf(start); at < chunks.length; at++) {
        const chunk = chunks[at]!
        for (let place = placeIn(chunk, start); place < chunk.length; place++) {
          const key = chunk[place]!
          if (key === above) continue
          if (found.length >= limit || !key.startsWith(prefix)) return found
          found.push(key)
        }
      }
      return found
    },
  }
}

/** UTF-8 byte order: that of code points, where UTF-16 would put those beyond the BMP before U+E000. */
export function byBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return rank(x) - rank(y)
  }
  return a.length - b.length
}

/** Surrogates after everything else in the BMP. */
const rank = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit)

/** The first index at which the answer, once true always true, is true; `length` when it never is. */
function firstAbove(length: number, isAbove: (index: number) => boolean): number {
  let low = 0
  let high = length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isAbove(middle)) high = middle
    else low = middle + 1
  }
  return low
}
