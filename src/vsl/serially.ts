/** Runs one piece of work at a time, in the order they came; a piece that fails stops nobody else. What finds nobody before it begins at once. */
export type Serially = <T>(work: () => Promise<T>) => Promise<T>

export function serially(): Serially {
  let last: Promise<unknown> = Promise.resolve()
  let under = 0
  const done = () => void under-- // a failure is its caller's to hear of; the next one is only waiting for the end
  return (work) => {
    const result = under++ === 0 ? work() : last.then(work)
    last = result.then(done, done)
    return result
  }
}
