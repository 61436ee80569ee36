import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopback } from '../bus/listening.ts'
import { digest } from '../bus/websocket-door.ts'
import type { ServerConfig } from '../config.ts'
import { type Role, tokenProblems } from '../config-check.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { Denied } from './problem.ts'

/** Throws Denied unless whoever sent these headers may do what needs this role. */
export type Door = (headers: IncomingHttpHeaders, role: Role | undefined) => void

/** Without tokens only loopback is served, and only to programs: a web page that the same machine shows is kept out. */
export function doorOf(host: string, tokens: ServerConfig['tokens'] = []): Door {
  const problems = tokenProblems(tokens)
  if (problems.length > 0) throw new InvalidInput('config', problems)
  if (tokens.length === 0 && !isLoopback(host))
    throw new Refused(`${host} can be reached from outside`, 'give server.tokens in the config, or listen on 127.0.0.1')
  const known = tokens.map(({ token, roles }) => ({ digest: digest(token), roles: new Set<string>(roles) }))

  return (headers, role) => {
    if (headers.origin !== undefined && !isOwn(headers.origin, headers.host))
      throw new Denied('forbidden', `pages of ${headers.origin.slice(0, 80)} may not ask`)
    if (known.length === 0 && !isLoopback(hostname(headers.host)))
      throw new Denied('forbidden', 'this server answers to localhost only') // or a name that is pointed here lets a page in
    if (role === undefined || known.length === 0) return
    const shown = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
    if (shown === undefined) throw new Denied('unauthenticated', 'send Authorization: Bearer with a token')
    const found = digest(shown)
    let allows: ReadonlySet<string> | undefined
    for (const one of known) if (timingSafeEqual(one.digest, found)) allows = one.roles // all are compared, whichever it is
    if (!allows) throw new Denied('unauthenticated', 'the token is not known')
    if (role !== 'read' && !allows.has(role) && !allows.has('admin'))
      throw new Denied('forbidden', `the token does not allow what needs the role ${role}`)
  }
}

const hostname = (host = ''): string => host.replace(/:\d+$/, '').toLowerCase()

const isOwn = (origin: string, host: string | undefined): boolean =>
  URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()
