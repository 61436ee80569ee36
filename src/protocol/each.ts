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

/** The same, with what came of each, in their order. */
export async function allOf<T, R>(items: Iterable<T>, most: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  await eachOf([...items].entries(), most, async ([i, item]) => {
    results[i] = await work(item)
  })
  return results
}

/** Goes down from some items to those that `work` gives for each, level by level. */
export async function descend<T>(
  from: readonly T[],
  most: number,
  work: (item: T) => Promise<readonly T[]>,
): Promise<void> {
  for (let level = from; level.length > 0; ) {
    const next: T[] = []
    await eachOf(level, most, async (item) => {
      for (const below of await work(item)) next.push(below)
    })
    level = next
  }
}

/** A list, some at a time. */
export function* inParts<T>(items: readonly T[], size: number): Iterable<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size)
}
