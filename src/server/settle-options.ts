import { DEFAULTS, type ServerConfig } from '../config.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { type Door, doorOf } from './door.ts'

/** Where a server listens, and whom it lets in. */
export interface Settled extends Required<Pick<ServerConfig, 'host' | 'port' | 'body_limit_bytes'>> {
  readonly door: Door
}

/** Throws InvalidInput for what cannot be meant, Refused for a host beyond loopback without tokens. */
export function settleOptions(options: ServerConfig): Settled {
  const { host, port, body_limit_bytes } = { ...DEFAULTS.server, ...options }
  const problems: Problem[] = []
  if (typeof host !== 'string' || host === '')
    problems.push({ path: 'server.host', rule: 'text', message: 'must name a host' })
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    problems.push({ path: 'server.port', rule: 'port', message: 'must be a whole number from 0 to 65535' })
  if (!Number.isSafeInteger(body_limit_bytes) || body_limit_bytes < 1)
    problems.push({ path: 'server.body_limit_bytes', rule: 'count', message: 'must be a whole number above 0' })
  if (problems.length > 0) throw new InvalidInput('config', problems)
  return { host, port, body_limit_bytes, door: doorOf(options) }
}
