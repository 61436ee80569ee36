import { whenAborted } from '../protocol/on-abort.ts'
import type { Request } from './route.ts'

/** Aborted when nobody waits for the answer any longer: who asked has it or is gone, or the server closes. */
export function goneOf(raw: Request['raw'], closing: AbortSignal): AbortController {
  const gone = new AbortController()
  const forget = whenAborted(closing, () => gone.abort())
  raw.once('close', () => {
    forget() // AbortSignal.any would leave something of every request on it
    gone.abort()
  })
  return gone
}
