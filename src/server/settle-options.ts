import { DEFAULTS, SERVER, type ServerConfig } from '../config.ts'
import { refuseUnlessFit } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { type Door, doorOf } from './door.ts'

/** Where a server listens, and whom it lets in. */
export interface Settled extends Required<Pick<ServerConfig, 'host' | 'port' | 'body_limit_bytes'>> {
  readonly door: Door
}

/** Throws InvalidInput for what cannot be meant, Refused for a host beyond loopback without tokens. */
export function settleOptions(server: ServerConfig): Settled {
  refuseUnlessFit('config', { server }, { server: SERVER })
  const { host, port, body_limit_bytes } = { ...DEFAULTS.server, ...given(server) }
  return { host, port, body_limit_bytes, door: doorOf(host, server.tokens) }
}
