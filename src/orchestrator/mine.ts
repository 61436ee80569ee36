/** The plans whose runs a runtime looks after that has come for a few. */
export interface Mine {
  has(plan: string): boolean
  values(): Iterable<string>
  /** A child of one of them: nobody else is counted on for it, either. */
  adopt(plan: string): void
}

/** Those that were asked for, which may become more, and what is adopted. */
export function mineOf(asked: ReadonlySet<string>): Mine {
  const adopted = new Set<string>()
  return {
    has: (plan) => asked.has(plan) || adopted.has(plan),
    values: () => [...asked, ...adopted],
    adopt: (plan) => void adopted.add(plan),
  }
}
