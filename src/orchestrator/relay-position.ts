import type { Clock } from '../protocol/clock.ts'
import { FencedOut, KeyExists, RevisionConflict } from '../protocol/errors.ts'
import { isObject } from '../protocol/json.ts'
import { type Backend, POSITIONS, type Position, type Write } from '../vsl/backend.ts'
import { type Reached, reachedBy } from './relay-feed.ts'

/** Under which key a bus's position is kept, and on which stream it is moved. */
export const positionKey = (bus: string): string => `${POSITIONS}${bus}`
export const relayStream = (bus: string): string => `relay/${bus}`

/** How far a bus has come; empty when nothing was ever confirmed. */
export const storedPosition = async (store: Backend, bus: string): Promise<Position> =>
  (await knownPosition(store, bus)) ?? ''

async function knownPosition(store: Backend, bus: string): Promise<Position | undefined> {
  const key = positionKey(bus)
  return (await store.getMany([key])).get(key) as Position | undefined
}

/** The same for who begins to tell it: a bus that was told nothing yet is known from then on, so that nothing is taken away before it is told. */
export async function begunPosition(
  store: Backend,
  bus: string,
  guard: Pick<Write, 'stream' | 'expected' | 'fence'>,
  onError: (error: unknown) => void,
): Promise<Position> {
  const found = await knownPosition(store, bus)
  if (found !== undefined) return found
  try {
    await store.commit({ ...guard, inserts: [[positionKey(bus), '']], puts: [], deletes: [] })
    return ''
  } catch (error) {
    if (error instanceof KeyExists) return storedPosition(store, bus) // another process has begun as well
    if (error instanceof FencedOut || error instanceof RevisionConflict) throw error
    onError(error) // a store that takes nothing has nothing taken away either; it is told all the same, and known when its position moves
    return ''
  }
}

/** What a feed is asked for by whoever has come to a position, which is empty before everything. */
export const behind = (position: Position) => (position === '' ? {} : { after: position })

/** Is an entry still there? A store that was set back may hold another in its place. */
export async function isStill(store: Backend, { stream, revision, position, commit_id }: Reached): Promise<boolean> {
  for await (const entry of store.read(stream, { after: revision - 1 }))
    return entry.position === position && reachedBy(entry).commit_id === commit_id
  return false
}

/** How long the oldest commit after a position has been waiting; 0 when there is none. */
export async function waitingMs(store: Backend, position: Position, clock: Clock): Promise<number> {
  for await (const { body } of store.feed(behind(position))) {
    const at = isObject(body) ? Date.parse(String(body.at)) : Number.NaN
    if (!Number.isNaN(at)) return Math.max(0, clock.now() - at) // others are no graph's
  }
  return 0
}
