/** Calls that are under way: whoever closes what they were made of waits for them. */
export interface Calls {
  /** The same methods; each call of one counts until it has ended. */
  counted<M extends object>(methods: M): M
  /** Resolves when all have ended that are under way by now, whatever became of them. */
  ended(): Promise<unknown>
}

type Method = (...given: never[]) => Promise<unknown>

export function callsUnderWay(): Calls {
  const underWay = new Set<Promise<unknown>>()
  const count =
    (method: Method) =>
    (...given: never[]) => {
      const call = method(...given)
      const over = () => underWay.delete(call)
      underWay.add(call)
      call.then(over, over)
      return call
    }
  return {
    counted: <M extends object>(methods: M) =>
      Object.fromEntries(Object.entries<Method>(methods as never).map(([name, method]) => [name, count(method)])) as M,
    ended: () => Promise.allSettled(underWay),
  }
}
