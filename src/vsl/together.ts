/** Hands on together what waits together: one batch is under way, and what comes meanwhile forms the next. Nothing waits for a timer. */
export interface Together<T> {
  /** Settles with the batch that the item travelled in. */
  add(item: T): Promise<void>
  /** Everything that was added has settled. */
  idle(): Promise<void>
}

export interface TogetherOptions<T> {
  readonly most: number
  /** Of items that may be large. */
  readonly bytesOf?: (item: T) => number
  /** A batch stays below, unless a single item is larger. */
  readonly maxBytes?: number
}

export function together<T>(
  write: (batch: readonly T[]) => Promise<void>,
  { most, bytesOf = () => 0, maxBytes = 0 }: TogetherOptions<T>,
): Together<T> {
  let waiting: { readonly item: T; readonly settle: (failure?: { readonly error: unknown }) => void }[] = []
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      await turn() // whoever has something ready may join
      const size = fitting()
      const batch = waiting.slice(0, size)
      waiting = waiting.slice(size)
      const failure = await write(batch.map(({ item }) => item)).then(
        () => undefined,
        (error: unknown) => ({ error }),
      )
      for (const { settle } of batch) settle(failure)
    }
    running = undefined
  }

  function fitting(): number {
    let bytes = 0
    for (const [i, { item }] of waiting.entries()) {
      bytes += bytesOf(item)
      if (i === most || (i > 0 && bytes > maxBytes)) return i
    }
    return waiting.length
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        waiting.push({ item, settle: (failure) => (failure ? reject(failure.error) : resolve()) })
        running ??= run()
      }),
    async idle() {
      await running
    },
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
