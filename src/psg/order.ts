/** What ordering needs to know of a plan's steps, as they would be after the commit. */
export interface Steps {
  dependenciesOf(step: string): readonly string[]
  dependantsOf(step: string): Iterable<string>
  rankOf(step: string): number | undefined
}

/** Ranks that differ from those before. With a cycle, which forbids them, they tell only of steps outside it. */
export interface Ordered {
  readonly ranks: ReadonlyMap<string, number>
  /** Each waits for the next, the last for the first. */
  readonly cycle?: readonly string[]
}

/**
 * Ranks for new steps, above `after`: by depth, then in the given order. Dependencies that are not among the new steps count as met.
 */
export function rankNew(added: readonly string[], dependenciesOf: Steps['dependenciesOf'], after: number): Ordered {
  const places = new Map<string, number>()
  for (const [place, step] of added.entries()) places.set(step, place)
  const unmet = new Int32Array(added.length)
  const dependants: (number[] | undefined)[] = []
  for (const [place, step] of added.entries()) {
    for (const dependency of dependenciesOf(step)) {
      const awaited = places.get(dependency)
      if (awaited === undefined || dependants[awaited]?.at(-1) === place) continue // named twice
      unmet[place]!++
      const waiting = dependants[awaited]
      if (waiting) waiting.push(place)
      else dependants[awaited] = [place]
    }
  }
  const ranks = new Map<string, number>()
  let generation: number[] = []
  for (let place = 0; place < added.length; place++) if (unmet[place] === 0) generation.push(place)
  while (generation.length > 0) {
    const next: number[] = []
    for (const place of generation) {
      ranks.set(added[place]!, after + ranks.size + 1)
      for (const dependant of dependants[place] ?? []) {
        unmet[dependant]!--
        if (unmet[dependant] === 0) next.push(dependant)
      }
    }
    generation = next.sort((a, b) => a - b)
  }
  if (ranks.size === added.length) return { ranks }
  const stuck = added.filter((step) => !ranks.has(step))
  return { ranks, cycle: someCycle(stuck, dependenciesOf) }
}

/**
 * Ranks after `from` has begun to wait for `to`. Most edges agree with the order as it is; otherwise only the steps ranked between the two are
 * looked at (the method of Pearce and Kelly).
 */
export function rankEdge(from: string, to: string, steps: Steps): Ordered {
  if (from === to) return { ranks: NONE, cycle: [from] }
  const low = steps.rankOf(from)
  const high = steps.rankOf(to)
  if (low === undefined || high === undefined || high < low) return { ranks: NONE }

  const cameFrom = new Map<string, string>([[from, from]])
  const waiting = [from] // everything that waits for `from`, ranked up to `to`
  for (let i = 0; i < waiting.length; i++) {
    for (const dependant of steps.dependantsOf(waiting[i]!)) {
      if (cameFrom.has(dependant) || steps.rankOf(dependant)! > high) continue
      cameFrom.set(dependant, waiting[i]!)
      if (dependant === to) return { ranks: NONE, cycle: pathTo(to, cameFrom) }
      waiting.push(dependant)
    }
  }
  const awaited = [to] // everything that `to` waits for, ranked down to `from`
  const seen = new Set(awaited)
  for (let i = 0; i < awaited.length; i++) {
    for (const dependency of steps.dependenciesOf(awaited[i]!)) {
      const rank = steps.rankOf(dependency)
      if (seen.has(dependency) || rank === undefined || rank < low) continue
      seen.add(dependency)
      awaited.push(dependency)
    }
  }
  const byRank = (a: string, b: string) => steps.rankOf(a)! - steps.rankOf(b)!
  const inNewOrder = [...awaited.sort(byRank), ...waiting.sort(byRank)]
  const freed = inNewOrder.map((step) => steps.rankOf(step)!).sort((a, b) => a - b)
  return { ranks: new Map(inNewOrder.map((step, i) => [step, freed[i]!])) }
}
const NONE: ReadonlyMap<string, number> = new Map()

/** From `to` back to where the search began: each waits for the next. */
function pathTo(to: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const path = [to]
  for (let at = to; cameFrom.get(at) !== at; ) {
    at = cameFrom.get(at)!
    path.push(at)
  }
  return path
}

/** Every step given waits for another of them, so walking along dependencies must come round. */
function someCycle(stuck: readonly string[], dependenciesOf: Steps['dependenciesOf']): string[] {
  const among = new Set(stuck)
  const walked = new Map<string, number>()
  const path: string[] = []
  let at = stuck[0]!
  while (!walked.has(at)) {
    walked.set(at, path.length)
    path.push(at)
    at = dependenciesOf(at).find((dependency) => among.has(dependency))!
  }
  return path.slice(walked.get(at))
}
