import type { FastifyRequest } from 'fastify'
import { EVENT_STREAM } from './events.ts'
import type { Route } from './route.ts'

/** A stream of events has no end to tell the head of. */
export const hasHead = ({ method, type }: Route): boolean => method === 'GET' && type !== EVENT_STREAM

/** The methods that an address can be asked with; none where there is no such path. */
export function methodsAt(routes: readonly Route[]): (url: string) => readonly string[] {
  const known = routes.map((route) => ({
    is: new RegExp(`^${route.path.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`),
    methods: hasHead(route) ? [route.method, 'HEAD'] : [route.method],
  }))
  return (url) => {
    const path = url.replace(/[?#].*/s, '')
    return known.filter(({ is }) => is.test(path)).flatMap(({ methods }) => methods)
  }
}

/** The path is there, and is not asked in this way. */
export function noMethod({ method, url }: FastifyRequest, allowed: readonly string[]): Error {
  const message = `${url.slice(0, 80)} takes ${allowed.join(', ')}, and not ${method}`
  return Object.assign(new Error(message), { statusCode: 405 })
}
