import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Delivery } from '../bus/transport.ts'
import { roughBytes } from '../protocol/json.ts'
import { eventsIn } from '../psg/told.ts'
import type { Entry } from '../vsl/backend.ts'
import { wakeable } from '../vsl/wakeable.ts'

/** What a journal entry has to tell, in order. Entries of streams that are no graphs tell nothing. */
export function deliveriesOf(entry: Entry): Delivery[] {
  const { stream, revision, position } = entry
  return eventsIn(entry).map(({ event, plan_id }, index) => ({
    position,
    graph_id: stream,
    context_id: stream,
    ...(plan_id !== undefined && { plan_id }),
    revision,
    index,
    event,
  }))
}

/** An entry, by its place and its commit: another may come to stand there. */
export interface Reached extends Pick<Entry, 'stream' | 'revision' | 'position'> {
  readonly commit_id: unknown
}
export const reachedBy = ({ stream, revision, position, body }: Entry): Reached => ({
  stream,
  revision,
  position,
  commit_id: Object(body).commit_id,
})

export interface Batch {
  readonly deliveries: readonly Delivery[]
  /** About as long as their text. */
  readonly bytes: number
  /** Everything up to here is in this batch or in one before it; `undefined` when it ends within its first entry. */
  readonly reached: Reached | undefined
}

/** How much is published at once. A single delivery may be larger. */
export interface Bounds {
  readonly deliveries: number
  readonly bytes: number
}

/** Reads a feed while what was read before is being published, but never more than about two batches ahead. */
export interface ReadAhead {
  /** All that has been read, within the bounds; waits for the first of it. `undefined` at the end; throws what broke the feed. */
  take(): Promise<Batch | undefined>
  stop(): void
}

interface Item {
  readonly delivery: Delivery | undefined
  readonly bytes: number
  /** Set on the last item of an entry. */
  readonly reached: Reached | undefined
}

/** While so many turns of the event loop pass, more is committed and comes with the next page: long when the process is busy, nothing when it is not. */
const GATHER_TURNS = 4

export function readAhead(feed: AsyncIterable<Entry>, bounds: Bounds): ReadAhead {
  let items: Item[] = []
  let bytes = 0
  let isGathering = false
  let isOver = false
  let failure: unknown
  const more = wakeable()
  const room = wakeable()

  const isFull = () => items.length >= 2 * bounds.deliveries || bytes >= 2 * bounds.bytes
  const add = (added: readonly Item[]) => {
    if (added.length === 1 && !added[0]?.delivery && items.at(-1)?.delivery === undefined) items.pop() // it moves the same position
    items.push(...added)
    for (const item of added) bytes += item.bytes
  }
  const gathered = () => {
    isGathering = false
    more.wake()
  }
  const pump = async () => {
    try {
      for await (const entry of feed) {
        const isFirst = items.length === 0
        add(itemsOf(entry))
        if (isFirst) {
          // One entry at a time, a busy store would be asked for every single commit: reading would take from the commits what they need.
          isGathering = true
          for (let turn = 0; turn < GATHER_TURNS; turn++) await nextTurn()
          setImmediate(gathered) // after the rest of this page
        }
        while (isFull()) if (!(await room.wait())) return
      }
    } catch (error) {
      failure = error
    } finally {
      isOver = true
      gathered()
    }
  }
  void pump()

  return {
    async take() {
      while ((items.length === 0 || isGathering) && !isOver) await more.wait()
      if (items.length === 0 && failure !== undefined) throw failure
      if (items.length === 0) return undefined
      const taken = items.slice(0, fitting(items, bounds))
      items = items.slice(taken.length)
      const left = bytes
      for (const item of taken) bytes -= item.bytes
      room.wake()
      return {
        deliveries: taken.flatMap(({ delivery }) => delivery ?? []),
        bytes: left - bytes,
        reached: taken.findLast(({ reached }) => reached !== undefined)?.reached,
      }
    },
    stop: () => room.end(),
  }
}

function itemsOf(entry: Entry): Item[] {
  const deliveries = deliveriesOf(entry)
  if (deliveries.length === 0) return [{ delivery: undefined, bytes: 0, reached: reachedBy(entry) }]
  return deliveries.map((delivery, i) => ({
    delivery,
    bytes: roughBytes(delivery.event),
    reached: i === deliveries.length - 1 ? reachedBy(entry) : undefined,
  }))
}

function fitting(items: readonly Item[], bounds: Bounds): number {
  let bytes = 0
  const end = items.findIndex((item, i) => {
    bytes += item.bytes
    return i >= bounds.deliveries || (i > 0 && bytes > bounds.bytes)
  })
  return end < 0 ? items.length : end
}
