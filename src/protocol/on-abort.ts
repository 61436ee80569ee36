/** One listener per signal, whoever waits: a thousand actions may share one, and Node searches its listeners in a row and warns of ten. */
const watched = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls back once the signal is aborted, never at once; what it returns takes the wish back. */
export function onAbort(signal: AbortSignal, ring: () => void): () => void {
  const waiting = watched.get(signal) ?? watch(signal)
  waiting.add(ring)
  return () => waiting.delete(ring)
}

function watch(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>()
  watched.set(signal, waiting)
  signal.addEventListener(
    'abort',
    () => {
      for (const ring of [...waiting]) ring()
      waiting.clear()
    },
    { once: true },
  )
  return waiting
}

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
