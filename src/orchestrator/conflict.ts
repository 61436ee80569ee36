import { type Digest, digestOfJson, type Json } from '../protocol/json.ts'

/** How results that contend for one thing are settled. */
export type ConflictRules = {
  /** Tried in this order until one decides; people are asked when none does. Hierarchy, voting, escalation when absent. */
  readonly strategies?: readonly Strategy[]
  /** By role, its id or name, or participant: the higher one wins. */
  readonly ranks?: { readonly [name: string]: number }
  /** What a step writes, by step id: two that write the same without waiting for each other contend. */
  readonly writes?: { readonly [step_id: string]: readonly string[] }
}

/** The higher rank, the result that most agree on, the latest result, a person. */
export type Strategy = 'hierarchy' | 'voting' | 'timestamp' | 'escalation'
export const STRATEGIES: readonly Strategy[] = ['hierarchy', 'voting', 'timestamp', 'escalation']
const USUAL: readonly Strategy[] = ['hierarchy', 'voting', 'escalation']

/** One result among several. */
export interface Contender {
  readonly action_id: string
  readonly step_id: string
  readonly participant_id: string
  readonly role_id: string
  /** Names by which it may be ranked. */
  readonly names: readonly string[]
  /** What it came to; large outputs are told by their digest. */
  readonly result: { readonly output: Json } | { readonly output_blob: Digest }
}

/** Without those who only came to the same as one before them. */
export function distinct(contenders: readonly Contender[]): readonly Contender[] {
  const first = new Map<Digest, Contender>()
  for (const one of contenders) if (!first.has(printOf(one))) first.set(printOf(one), one)
  return [...first.values()]
}

/** Do they differ at all? */
export const contend = (contenders: readonly Contender[]): boolean => new Set(contenders.map(printOf)).size > 1

/** Who wins, by the first strategy that decides; `undefined`: a person must say. Contenders in the order in which they ended. */
export function settle(
  contenders: readonly Contender[],
  { strategies = USUAL, ranks = {} }: ConflictRules,
): { readonly winner: Contender; readonly strategy: Strategy } | undefined {
  for (const strategy of strategies) {
    if (strategy === 'escalation') return undefined
    const winner = WINNERS[strategy](contenders, ranks)
    if (winner) return { winner, strategy }
  }
  return undefined
}

type Winner = (contenders: readonly Contender[], ranks: { readonly [name: string]: number }) => Contender | undefined

const WINNERS: { readonly [S in Exclude<Strategy, 'escalation'>]: Winner } = {
  hierarchy: (contenders, ranks) => {
    const known = new Map(Object.entries(ranks)) // somebody may be called constructor
    const rankOf = ({ names }: Contender) =>
      Math.max(...names.map((name) => known.get(name) ?? Number.NEGATIVE_INFINITY))
    return onlyBest(contenders, rankOf)
  },
  voting: (contenders) => {
    const votes = new Map<Digest, number>()
    for (const one of contenders) votes.set(printOf(one), (votes.get(printOf(one)) ?? 0) + 1)
    return onlyBest(distinct(contenders), (one) => votes.get(printOf(one))!)
  },
  timestamp: (contenders) => contenders.at(-1),
}

/** Did they come to the same? */
export const agree = (one: Contender, other: Contender): boolean => printOf(one) === printOf(other)

/** Of results that agree the same. Made once: what a step came to is held against all who wrote the same. */
function printOf({ result }: Contender): Digest {
  const print = prints.get(result) ?? digestOfJson(result)
  prints.set(result, print)
  return print
}
const prints = new WeakMap<Contender['result'], Digest>()

/** The best; of several that are equally good, the first if they agree, and nobody if they do not. */
function onlyBest(contenders: readonly Contender[], worth: (one: Contender) => number): Contender | undefined {
  const best = Math.max(...contenders.map(worth))
  const those = distinct(contenders.filter((one) => worth(one) === best))
  return those.length === 1 && best > Number.NEGATIVE_INFINITY ? those[0] : undefined
}
