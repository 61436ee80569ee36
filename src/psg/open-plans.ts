import type { Backend } from '../vsl/backend.ts'
import { byBytes } from '../vsl/sorted-keys.ts'
import { INDEX, type Whereabouts } from './indexes.ts'

const AT_ONCE = 200

/**
 * Where plans are whose run has not ended, in the order of their ids; `after` is one of them. What has ended costs nothing. A run that is laid down
 * or taken up between two looks would be seen by neither, so those that run are looked at before and after those that rest.
 */
export async function* openPlans(store: Backend, from: { readonly after?: string } = {}): AsyncIterable<Whereabouts> {
  for (let { after } = from; ; ) {
    const pages: Whereabouts[][] = []
    for (const index of [INDEX.running, INDEX.resting, INDEX.running]) pages.push(await page(store, index, after))
    const [end] = pages
      .filter(({ length }) => length === AT_ONCE) // nobody knows what comes behind it
      .map((full) => full.at(-1)!.group)
      .sort(byBytes)
    const found = new Map(pages.flat().map((where) => [where.group, where]))
    for (const group of [...found.keys()].sort(byBytes))
      if (end === undefined || byBytes(group, end) <= 0) yield found.get(group)!
    if (end === undefined) return
    after = end
  }
}

async function page(store: Backend, index: (plan: string) => string, after?: string): Promise<Whereabouts[]> {
  const rows: Whereabouts[] = []
  const from = { limit: AT_ONCE, ...(after !== undefined && { after: index(after) }) }
  for await (const [, where] of store.scan(index(''), from)) rows.push(where as Whereabouts)
  return rows
}
