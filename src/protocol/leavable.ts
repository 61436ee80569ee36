/**
 * A walk that ends once it is left, also while it waits for what comes next. A generator by itself ends with the next value, which may never come: a
 * stream made of it (`Readable.from`) would keep it, and not even close, when its reader is gone.
 */
export function leavable<T>(walk: AsyncGenerator<T, void, undefined>, leave: () => void): typeof walk {
  const { return: end, throw: fail } = walk
  return Object.assign(walk, {
    return(value: void | PromiseLike<void>) {
      leave()
      return end.call(walk, value)
    },
    throw(error: unknown) {
      leave()
      return fail.call(walk, error)
    },
  })
}
