/** Those who wait for one signal. */
interface Watch {
  readonly rings: Set<() => void>
  end(): void
}

/** One listener per signal, whoever waits: a thousand actions may share one, and Node searches its listeners in a row and warns of ten. */
const watched = new WeakMap<AbortSignal, Watch>()

/** Calls back once the signal is aborted, never at once; what it returns takes the wish back. */
export function onAbort(signal: AbortSignal, ring: () => void): () => void {
  const { rings, end } = watched.get(signal) ?? watch(signal)
  rings.add(ring)
  return () => {
    if (rings.delete(ring) && rings.size === 0) end()
  }
}

/** Ends with the last who waits: what AbortSignal.any made, Node keeps for as long as it has a listener. */
function watch(signal: AbortSignal): Watch {
  const rings = new Set<() => void>()
  const heard = () => {
    for (const ring of [...rings]) ring()
    rings.clear()
  }
  const end = () => {
    signal.removeEventListener('abort', heard)
    watched.delete(signal)
  }
  signal.addEventListener('abort', heard, { once: true })
  watched.set(signal, { rings, end })
  return { rings, end }
}

/** For a signal that many wait for, one after another: its listener stays, and is not made anew for each, until what this returns is called. */
export const keepWatched = (signal: AbortSignal): (() => void) => onAbort(signal, () => undefined)

/** Calls back once the signal is aborted, at once if it is; what it returns takes the wish back. */
export function whenAborted(signal: AbortSignal, ring: () => void): () => void {
  if (signal.aborted) ring()
  return onAbort(signal, ring)
}

/** One signal of two, for a wait that takes one; `unlink` when the wait is over. (AbortSignal.any keeps what it made while its sources live.) */
export function eitherOf(a: AbortSignal, b: AbortSignal | undefined): { signal: AbortSignal; unlink: () => void } {
  if (b === undefined || a === b) return { signal: a, unlink: () => undefined }
  const either = new AbortController()
  const abort = () => either.abort(a.aborted ? a.reason : b.reason)
  if (a.aborted || b.aborted) abort()
  const links = [onAbort(a, abort), onAbort(b, abort)]
  return { signal: either.signal, unlink: () => links.forEach((unlink) => void unlink()) }
}
