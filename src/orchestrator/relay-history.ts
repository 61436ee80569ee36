import type { History } from '../bus/fan-out.ts'
import type { Place } from '../bus/transport.ts'
import { trimmedAt } from '../psg/trimmed.ts'
import type { Backend, Entry } from '../vsl/backend.ts'
import { badPosition } from '../vsl/check-input.ts'
import { paced } from './reading-pace.ts'
import { deliveriesOf } from './relay-feed.ts'
import { behind, storedPosition } from './relay-position.ts'

/** The journal of a store, which may be on its way, as the history of a bus whose carrier keeps nothing. */
export const historyOf = (given: Backend | Promise<Backend>, bus: string): History => ({
  async *read(after, signal) {
    const store = await given
    if (typeof after !== 'string') {
      // A commit may bear several events, and a reader may have stopped between two of them.
      const entry = await entryAt(store, after, signal)
      if (signal.aborted) return
      // Of a store that has gone on otherwise since, as from an older backup, the reader would miss what it does not know it lacks.
      const isThere = entry?.position === after.position
      if (!isThere && (await trimmedAt(store, after.graph_id)) === undefined) throw badPosition(after.position)
      if (isThere) yield* deliveriesOf(entry).filter(({ index }) => index > after.index)
    }
    const position = typeof after === 'string' ? after : after.position
    for await (const entry of paced(store.feed({ ...behind(position), signal }))) yield* deliveriesOf(entry)
  },
  published: async () => storedPosition(await given, bus),
})

async function entryAt(store: Backend, { graph_id, revision }: Place, signal: AbortSignal): Promise<Entry | undefined> {
  for await (const entry of store.read(graph_id, { after: Math.max(0, revision - 1), signal })) return entry
  return undefined
}
