import { InvalidInput } from '../protocol/errors.ts'
import { anything, problemsIn } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { asDelivery, checkAfter } from './delivery.ts'
import { matcher } from './filter.ts'
import type { After, Delivery, Filter } from './transport.ts'

/** The one frame a client sends: what it wants, and from where. */
export interface Subscribe {
  readonly filter: Filter
  /** From now on when absent. */
  readonly after?: After
}

/** The server's first frame: where the subscription begins, and how often it will be heard from at least. */
export interface Ready {
  readonly after: After | null
  readonly heartbeat_ms: number
}

export type ServerFrame = { readonly ready: Ready } | { readonly delivery: Delivery }

/** Why a connection ended, for programs. 1001, 1013 and what is not here (1006, no close at all) are worth another attempt. */
export const CLOSE = {
  goingAway: 1001,
  tooLarge: 1009,
  notNow: 1013,
  badFrame: 4400,
  keepsNothing: 4406,
  silent: 4408,
  tooSlow: 4429,
} as const

/** Named in the handshake; a browser, which cannot send headers, names `bearer.` and its token in base64url beside it. */
export const PROTOCOL = 'mplp.events.v1'
export const bearerProtocol = (token: string): string => `bearer.${Buffer.from(token).toString('base64url')}`

/** Throws InvalidInput, naming the path, for anything but a Subscribe. */
export function readSubscribe(text: string): Subscribe {
  const frame = parsed(text)
  const problems = [...problemsIn(frame, { filter: anything, after: anything }, ''), ...checkAfter(frame.after)]
  if (problems.length > 0) throw new InvalidInput('frame', problems)
  matcher((frame.filter ?? {}) as Filter)
  return { filter: frame.filter ?? {}, ...(frame.after !== undefined && { after: frame.after as After }) }
}

export function readServerFrame(text: string): ServerFrame {
  const frame = parsed(text)
  if ('delivery' in frame) return { delivery: asDelivery(frame.delivery, 'a frame of the server') }
  if (isObject(frame.ready)) return { ready: frame.ready as unknown as Ready }
  throw new InvalidInput('frame', [{ path: '', rule: 'frame', message: 'is neither ready nor a delivery' }])
}

function parsed(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new InvalidInput('frame', [{ path: '', rule: 'json', message: 'is not JSON' }], { cause })
  }
  if (isObject(value)) return value
  throw new InvalidInput('frame', [{ path: '', rule: 'frame', message: 'is not an object' }])
}
