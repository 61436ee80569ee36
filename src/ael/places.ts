import { onAbort } from '../protocol/on-abort.ts'
import { aborted } from './failure.ts'
import type { Line, Places } from './layer.ts'

/** How many attempts are made at once, by the type of their action; `*` all together. */
export type AtOnce = { readonly [action_type: string]: number }

/** Somebody who waits for a place; the place is theirs already when `come` is called. */
interface Ticket {
  readonly number: number
  readonly action_type: string
  readonly come: () => void
}

/** One that becomes free is at once the place of whoever has waited longest and can use it: nobody who comes later is first. */
export function placesFor(atOnce: AtOnce): Places {
  const rooms = new Map(Object.entries(atOnce).map(([action_type, free]) => [action_type, { free }]))
  const common = rooms.get('*')
  const own = (action_type: string) => (action_type === '*' ? undefined : rooms.get(action_type)) // or it would have two places in one room
  const isLimited = (action_type: string) => (own(action_type) ?? common) !== undefined
  const isFree = (action_type: string) => own(action_type)?.free !== 0 && common?.free !== 0
  /** By which attempt, and for what. */
  const taken = new Map<string | object, string>()
  /** Who waits, by what for, in the order in which they came. */
  const waiting = new Map<string, Set<Ticket>>()
  let numbers = 0

  const count = (action_type: string, by: 1 | -1) => {
    const room = own(action_type)
    if (room) room.free += by
    if (common) common.free += by
  }

  const join = (action_type: string, come: () => void): Ticket => {
    const ticket = { number: ++numbers, action_type, come }
    const others = waiting.get(action_type)
    if (others) others.add(ticket)
    else waiting.set(action_type, new Set([ticket]))
    return ticket
  }

  const quit = (ticket: Ticket) => {
    const line = waiting.get(ticket.action_type)
    line?.delete(ticket)
    if (line?.size === 0) waiting.delete(ticket.action_type)
  }

  const vacate = (action_type: string) => {
    count(action_type, 1)
    let next: Ticket | undefined
    for (const [first] of waiting.values())
      if (isFree(first!.action_type) && (next === undefined || first!.number < next.number)) next = first
    if (next === undefined) return
    quit(next)
    count(next.action_type, -1)
    next.come()
  }

  const line = (ring: () => void): Line => {
    const asked = new Map<string, Ticket>()
    const kept = new Set<string>()
    let closed = false
    const settle = () => {
      if (kept.size === 0) return
      const left = [...kept]
      kept.clear()
      left.forEach(vacate)
    }
    return {
      has(action_type) {
        if (closed) return !isLimited(action_type)
        if (kept.has(action_type) || isFree(action_type)) return true
        if (!asked.has(action_type)) {
          const come = () => {
            asked.delete(action_type)
            kept.add(action_type)
            ring()
          }
          asked.set(action_type, join(action_type, come))
        }
        return false
      },
      take(action_type, execution_id) {
        if (!isLimited(action_type)) return
        if (!kept.delete(action_type)) count(action_type, -1)
        taken.set(execution_id, action_type)
      },
      awaits: (action_type) => (closed ? isLimited(action_type) : asked.has(action_type)),
      get isEmpty() {
        return asked.size === 0
      },
      settle,
      close() {
        closed = true
        for (const ticket of asked.values()) quit(ticket)
        asked.clear()
        settle()
      },
    }
  }

  return {
    line,
    async enter(action_type, attempt, signal) {
      if (signal.aborted) throw aborted(action_type, signal)
      if (!isLimited(action_type)) return
      if (isFree(action_type)) count(action_type, -1)
      else
        await new Promise<void>((resolve, reject) => {
          const forget = onAbort(signal, () => {
            quit(ticket)
            reject(aborted(action_type, signal))
          })
          const ticket = join(action_type, () => {
            forget()
            resolve()
          })
        })
      taken.set(attempt, action_type)
    },
    has: (attempt) => taken.has(attempt),
    leave(attempt) {
      const action_type = taken.get(attempt)
      if (action_type === undefined) return
      taken.delete(attempt)
      vacate(action_type)
    },
  }
}
