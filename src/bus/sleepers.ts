/** Those who wait for the same thing to happen. */
export interface Sleepers {
  readonly any: boolean
  sleep(): Promise<void>
  wake(): void
}

export function sleepers(): Sleepers {
  let asleep: (() => void)[] = []
  return {
    get any() {
      return asleep.length > 0
    },
    sleep: () =>
      new Promise((wake) => {
        asleep.push(wake)
      }),
    wake() {
      const all = asleep
      asleep = []
      for (const wake of all) wake()
    },
  }
}
