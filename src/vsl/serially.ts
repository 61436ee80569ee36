/** Runs one piece of work at a time, in the order they came; a piece that fails stops nobody else. */
export type Serially = <T>(work: () => Promise<T>) => Promise<T>

export function serially(): Serially {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const result = last.then(work)
    last = result.catch(() => undefined) // its caller hears of it; the next one is only waiting for the end
    return result
  }
}
