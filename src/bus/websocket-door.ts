import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { bearerProtocol, PROTOCOL } from './websocket-frames.ts'

export interface Door {
  readonly path: string
  readonly token: string | undefined
  /** Web pages that may connect. */
  readonly origins: readonly string[]
}

/** Why a request is not let in, as an HTTP status; `undefined` when it may enter. */
export function refusal(request: IncomingMessage, { token, origins }: Door): 401 | 403 | undefined {
  // Browsers send an Origin and programs do not: without this check any page that somebody visits could read from loopback.
  const { origin } = request.headers
  if (origin !== undefined && !origins.includes(origin)) return 403
  if (token !== undefined && !offered(request).some((found) => isSame(found, `Bearer ${token}`, bearerProtocol(token))))
    return 401
  return undefined
}

/** By the text alone: what a stranger sends need not be a URL. */
export const isFor = ({ url = '/' }: IncomingMessage, path: string): boolean => url.split('?', 1)[0] === path

/** Answers with our protocol if it was offered, and never with the one that holds a token. */
export const chosenProtocol = (offer: Set<string>): string | false => (offer.has(PROTOCOL) ? PROTOCOL : false)

const offered = ({ headers }: IncomingMessage): string[] => [
  ...(headers.authorization === undefined ? [] : [headers.authorization]),
  ...(headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim()),
]

/** Takes the same time whatever is found. */
const isSame = (found: string, ...wanted: readonly string[]): boolean =>
  wanted.map((text) => timingSafeEqual(digest(found), digest(text))).includes(true)

/** Of one length, whatever the text: only such can be compared in a time that tells nothing. */
export const digest = (text: string) => hash('sha256', text, 'buffer')
