import { inParts } from '../protocol/each.ts'
import type { Json } from '../protocol/json.ts'
import type { Cells, Sets } from './lifted-cells.ts'
import { lost } from './lifted-layout.ts'
import { byBytes } from './sorted-keys.ts'

/** Which keys there are, for a store that cannot say it. In pages, so that a change costs its pages and not the number of keys. */
export interface Directory {
  has(key: string): Promise<boolean>
  /** The cells to set so that `added` are in it and `removed` are not. */
  changed(added: readonly string[], removed: readonly string[]): Promise<Sets>
  /** At most `limit` keys that begin with `prefix`, those above `after` only, in byte order. */
  page(prefix: string, after: string | undefined, limit: number): Promise<string[]>
}

/** The pages in order: each holds the keys from its first on, up to the first of the next. The first page begins at the empty text. */
interface Root {
  readonly next: number
  readonly pages: readonly (readonly [first: string, id: number])[]
}

/** Also the roots are cells; they are the ones worth remembering. */
export const isRoot = (cell: string): boolean => /^mplp\/keys\/[a-z]+$/.test(cell)

export function directory(cells: Cells, name: string, pageKeys: number): Directory {
  const rootCell = `mplp/keys/${name}`
  const pageCell = (id: number) => `${rootCell}/${id}`
  const rootOf = async (): Promise<Root> =>
    ((await cells.get(rootCell)) as Root | undefined) ?? { next: 1, pages: [['', 0]] }
  const keysOf = async (id: number): Promise<string[]> => {
    const keys = (await cells.get(pageCell(id))) as string[] | undefined
    if (keys === undefined && id > 0) throw lost(pageCell(id)) // only the first is there before it is written
    return keys ?? []
  }

  return {
    async has(key) {
      const { pages } = await rootOf()
      return (await keysOf(pages[placeOf(pages, key)]![1])).includes(key)
    },

    async changed(added, removed) {
      const root = await rootOf()
      const changes = new Map<number, { add: Set<string>; remove: Set<string> }>()
      const changeAt = (key: string) => {
        const place = placeOf(root.pages, key)
        const change = changes.get(place) ?? { add: new Set(), remove: new Set() }
        changes.set(place, change)
        return change
      }
      for (const key of added) changeAt(key).add.add(key)
      for (const key of removed) changeAt(key).remove.add(key)

      const sets: [string, Json][] = []
      const pages: (readonly [string, number])[] = []
      let next = root.next
      for (const [place, page] of root.pages.entries()) {
        const [first, id] = page
        const change = changes.get(place)
        if (change === undefined) {
          pages.push(page)
          continue
        }
        const before = await keysOf(id)
        const keys = [...new Set([...before, ...change.add])].filter((key) => !change.remove.has(key)).sort(byBytes)
        if (keys.length === before.length && keys.every((key, i) => key === before[i])) pages.push(page)
        else if (keys.length === 0 && place > 0) sets.push([pageCell(id), null])
        else
          for (const [i, part] of parts(keys, pageKeys).entries()) {
            const partId = i === 0 ? id : next++
            pages.push([i === 0 ? first : part[0]!, partId])
            sets.push([pageCell(partId), part])
          }
      }
      if (next !== root.next || pages.length !== root.pages.length)
        sets.push([rootCell, { next, pages } as unknown as Json])
      return sets
    },

    async page(prefix, after, limit) {
      const above = after !== undefined && byBytes(after, prefix) >= 0 ? after : undefined
      const start = above ?? prefix
      const { pages } = await rootOf()
      const found: string[] = []
      for (let place = placeOf(pages, start); place < pages.length; place++)
        for (const key of await keysOf(pages[place]![1])) {
          if (key === above || byBytes(key, start) < 0) continue
          if (found.length >= limit || !key.startsWith(prefix)) return found
          found.push(key)
        }
      return found
    },
  }
}

/** The last page that begins at or before the key. */
function placeOf(pages: Root['pages'], key: string): number {
  let low = 0
  let high = pages.length - 1
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (byBytes(pages[middle]![0], key) <= 0) low = middle
    else high = middle - 1
  }
  return low
}

/** One page if they fit, else pages with room for more. */
const parts = (keys: string[], most: number): readonly (readonly string[])[] =>
  keys.length <= most ? [keys] : [...inParts(keys, Math.ceil(most / 2))]
