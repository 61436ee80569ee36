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
