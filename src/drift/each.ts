/** Does something for each item, at most `most` at a time. Ends at the first failure, when what is under way has ended. */
export async function eachOf<T>(items: Iterable<T>, most: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]()
  let failed: { readonly error: unknown } | undefined
  const worker = async () => {
    for (let next = left.next(); !next.done && !failed; next = left.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failed ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: most }, worker))
  if (failed) throw failed.error
}

/** Lets in what fits below a bound, in the order it came; what is larger than the bound goes alone. */
export interface Room {
  /** Waits for its turn; call what it answers with when it is over. */
  enter(size: number): Promise<() => void>
}

export function room(bound: number): Room {
  let taken = 0
  const waiting: { readonly size: number; readonly go: () => void }[] = []
  const fits = (size: number) => taken === 0 || taken + size <= bound
  const leave = (size: number) => () => {
    taken -= size
    while (waiting[0] && fits(waiting[0].size)) {
      const { size: next, go } = waiting.shift()!
      taken += next
      go()
    }
  }
  return {
    async enter(size) {
      if (waiting.length > 0 || !fits(size)) await new Promise<void>((go) => waiting.push({ size, go }))
      else taken += size
      return leave(size)
    },
  }
}
