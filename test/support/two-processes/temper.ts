/** What people may wish for, and how often against the others. */
const WEIGHTS = {
  decide: 3,
  reject: 0.3,
  propose: 1,
  pause: 1,
  resume: 1,
  signal: 2,
  cancel: 0.15,
  suspend: 0.4,
  activate: 1,
}
export type Wish = keyof typeof WEIGHTS

/**
 * What happens in a world, and how often. No two are alike: what heals a fault, such as a restart or the next wish, would hide it in every one of them
 * if it happened in every one.
 */
export interface Temper {
  /** The round from which nobody is killed, frozen or closed any more, and wished is only what a run needs to end. */
  readonly calmFrom: number
  /** In how many of those rounds somebody looks once what that is. */
  readonly helpedEvery: number
  /** How likely each is in a round, for each process; `stalls`: it freezes over a write, until its lease is over. */
  readonly fates: { readonly [F in 'dies' | 'freezes' | 'closes' | 'stalls']: number }
  /** How likely it is to die in a round in which its run is taken back. */
  readonly diesGoingBack: number
  /** How likely any wish is in a round, and how often each is made against the others; some never. */
  readonly wishes: number
  readonly weights: ReadonlyMap<Wish, number>
}

/** `only` names what is wished for, if it is not to be left to chance. */
export function temperOf(random: () => number, only?: readonly Wish[]): Temper {
  const sometimes = (likelihood: number) => (random() < 0.5 ? likelihood * 2 * random() : 0)
  return {
    calmFrom: Math.floor(random() * 1_500),
    helpedEvery: 10 + Math.floor(random() * 100),
    fates: { dies: sometimes(0.004), freezes: sometimes(0.004), closes: sometimes(0.004), stalls: sometimes(0.06) },
    diesGoingBack: sometimes(0.03),
    wishes: 0.1 * random(),
    weights: only ? new Map(only.map((wish) => [wish, 1])) : someOf(random),
  }
}

const someOf = (random: () => number): ReadonlyMap<Wish, number> =>
  new Map((Object.keys(WEIGHTS) as Wish[]).map((wish) => [wish, random() < 0.6 ? WEIGHTS[wish] : 0]))
