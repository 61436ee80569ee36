import type { ClientRequest, IncomingMessage } from 'node:http'
import { whenAborted } from '../protocol/on-abort.ts'

/**
 * Ends a request and its answer when the signal says so. Not by Node's own `signal`: before 26, one that is aborted while the last of its answer is read
 * throws where nobody can catch it, and the process ends.
 */
export function endedBy(signal: AbortSignal, sent: ClientRequest): void {
  let answer: IncomingMessage | undefined
  const leave = () => void (answer ?? sent).destroy()
  sent.once('response', (response) => {
    answer = response
  })
  sent.once('close', whenAborted(signal, leave))
}
