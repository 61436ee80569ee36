import type { Backend } from '../vsl/backend.ts'
import { INDEX, type Whereabouts } from './indexes.ts'

const AT_ONCE = 500

/**
 * Where plans are that have not ended, in the order of their ids; `after` is one of them. Found by their keys, so that contexts in which all has
 * ended cost next to nothing.
 */
export async function* openPlans(store: Backend, from: { readonly after?: string } = {}): AsyncIterable<Whereabouts> {
  const prefix = INDEX.id('plan', '')
  let places: Whereabouts[] = []
  for await (const [, where] of store.scan(
    prefix,
    from.after === undefined ? {} : { after: `${prefix}${from.after}` },
  )) {
    places.push(where as Whereabouts)
    if (places.length < AT_ONCE) continue
    yield* await open(store, places)
    places = []
  }
  if (places.length > 0) yield* await open(store, places)
}

async function open(store: Backend, places: readonly Whereabouts[]): Promise<readonly Whereabouts[]> {
  const keyOf = ({ graph, group }: Whereabouts) => INDEX.open(graph, group)
  const there = await store.getMany(places.map(keyOf))
  return places.filter((place) => there.has(keyOf(place)))
}
