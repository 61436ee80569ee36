import type { Adapter } from './adapter.ts'
import { decorated } from './decorate.ts'
import { aborted } from './failure.ts'
import { eitherOf, onAbort } from './on-abort.ts'

/** How many attempts are made at once, by the type of their action; `*` all together. */
export type AtOnce = { readonly [action_type: string]: number }

type Leave = () => void

/** So many at once. Whoever comes later waits, in order. */
class Room {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(places: number) {
    this.#free = places
  }

  /** Resolves when there is a place, to what gives it back; rejects, without one, when the caller gives up. */
  async enter(signal: AbortSignal, what: string): Promise<Leave> {
    if (signal.aborted) throw aborted(what, signal)
    if (this.#free > 0) this.#free--
    else await this.#next(signal, what)
    return () => this.#leave()
  }

  #next(signal: AbortSignal, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => {
        this.#waiting.delete(come)
        reject(aborted(what, signal))
      })
      const come = () => {
        forget()
        resolve()
      }
      this.#waiting.add(come)
    })
  }

  #leave(): void {
    const [next] = this.#waiting
    if (next === undefined) this.#free++
    else {
      this.#waiting.delete(next)
      next()
    }
  }
}

/** The rooms that an action of a type has to have a place in. */
export function roomsFor(atOnce: AtOnce): (action_type: string) => readonly Room[] {
  const rooms = new Map(Object.entries(atOnce).map(([action_type, places]) => [action_type, new Room(places)]))
  // An action may itself be of type `*`: two places in one room, and it would wait for itself.
  return (action_type) => [...new Set([rooms.get(action_type), rooms.get('*')])].filter((room) => room !== undefined)
}

/** Waits for its place before an attempt is made; its time runs from then on. What an action carries out on its way has the place of that action. */
export function withRooms(adapter: Adapter, rooms: (action_type: string) => readonly Room[]): Adapter {
  return decorated(adapter, async (action, call) => {
    if (call.depth > 0) return adapter.execute(action, call) // or it could wait for the very place that it holds up
    const { signal, unlink } = eitherOf(call.signal, call.shutdown)
    const leaving: Leave[] = []
    try {
      for (const room of rooms(action.action_type)) leaving.push(await room.enter(signal, action.action_type))
      return await adapter.execute(action, call)
    } finally {
      unlink()
      for (const leave of leaving) leave()
    }
  })
}
