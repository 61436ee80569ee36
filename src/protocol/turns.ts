/** Waits until nobody who came before is at any of these names; call what it answers with when it is over. */
export type Turns = (names: Iterable<string>) => Promise<() => void>

/** Who changes the same things does so one after the other, in the order they came; different things are changed beside each other. */
export function turns(): Turns {
  const last = new Map<string, Promise<void>>()
  return async (names) => {
    const mine = new Set(names)
    const before = [...mine].flatMap((name) => last.get(name) ?? [])
    let leave = () => {}
    const over = new Promise<void>((resolve) => {
      leave = resolve
    })
    for (const name of mine) last.set(name, over)
    await Promise.all(before)
    return () => {
      for (const name of mine) if (last.get(name) === over) last.delete(name)
      leave()
    }
  }
}
