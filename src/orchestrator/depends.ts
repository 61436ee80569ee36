import { append } from '../protocol/append.ts'
import type { Step } from '../protocol/types.ts'
import { rankNew } from '../psg/order.ts'

/** The places of a plan's steps, each after all that it waits for; apart from them those on a circle, and whatever waits for these. */
export function dependenciesFirst(steps: readonly Step[]): {
  readonly order: readonly number[]
  readonly circular: readonly number[]
} {
  const places = placesOf(steps)
  const waits = (id: string) => steps[places.get(id)!]!.dependencies ?? []
  const order = [...rankNew([...places.keys()], waits, 0).ranks.keys()].map((id) => places.get(id)!)
  const ordered = new Set(order)
  return { order, circular: [...steps.keys()].filter((at) => !ordered.has(at)) }
}

/** That one step depends on another, directly or by way of others. */
export interface Dependence {
  readonly step: string
  readonly on: string
}

/** As many as a number has bits. */
const AT_ONCE = 32

/**
 * Those that do not hold. In a long plan every step may refer to one that is far away, so they are not searched for one by one: each walk along the
 * plan answers for 32 of the steps that are referred to. Steps on a circle are passed over: the graph names the circle.
 */
export function unheld<D extends Dependence>(steps: readonly Step[], asked: readonly D[]): readonly D[] {
  if (asked.length === 0) return []
  const { order, circular } = dependenciesFirst(steps)
  const places = placesOf(steps)
  const waits = waitsOf(steps)
  const isCircular = new Set(circular)
  const askedOf = new Map<string, D[]>()
  const wrong: D[] = []
  for (const one of asked) {
    if (isCircular.has(places.get(one.step)!)) continue
    if (places.has(one.on)) append(askedOf, one.on, one)
    else wrong.push(one)
  }
  const sources = [...askedOf]
  for (let from = 0; from < sources.length; from += AT_ONCE) {
    const group = sources.slice(from, from + AT_ONCE)
    const bits = new Int32Array(steps.length)
    for (const [i, [on]] of group.entries()) bits[places.get(on)!] = 1 << i
    const found = new Int32Array(steps.length)
    for (const at of order) for (const on of waits[at]!) found[at]! |= found[on]! | bits[on]!
    for (const [i, [, ones]] of group.entries())
      for (const one of ones) if ((found[places.get(one.step)!]! & (1 << i)) === 0) wrong.push(one)
  }
  return wrong
}

const placesOf = (steps: readonly Step[]): ReadonlyMap<string, number> =>
  new Map(steps.map(({ step_id }, at) => [step_id, at]))

/** What each step waits for, by place. */
function waitsOf(steps: readonly Step[]): readonly (readonly number[])[] {
  const places = placesOf(steps)
  return steps.map(({ dependencies = [] }) => [...new Set(dependencies)].flatMap((on) => places.get(on) ?? []))
}
