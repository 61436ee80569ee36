import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { authority, portError } from '../bus/listening.ts'
import type { ComposedRuntime } from '../compose.ts'
import type { ServerConfig } from '../config.ts'
import { Closed, NotFound, Refused } from '../protocol/errors.ts'
import { anything, duration, type Fields, having, method, needed, refuseUnlessFit } from '../protocol/fields.ts'
import { type Report, reporter } from '../protocol/reporter.ts'
import { bodyOf, checkQuery } from './check-request.ts'
import { confirmRoutes } from './confirms.ts'
import { connectionsOf } from './connections.ts'
import { counters } from './counters.ts'
import type { Door } from './door.ts'
import { driftRoutes } from './drift.ts'
import { eventRoutes } from './events.ts'
import { healthRoutes, unfit } from './health.ts'
import { integrationRoutes } from './integration.ts'
import { hasHead, methodsAt, noMethod } from './methods.ts'
import { notHttp } from './not-http.ts'
import { describing } from './openapi.ts'
import { unlessOwn } from './own-port.ts'
import { type ProblemDocument, problemOf, problemOfRequest } from './problem.ts'
import { psgRoutes } from './psg.ts'
import { readJson } from './read-json.ts'
import type { Request, Route } from './route.ts'
import { runRoutes } from './runs.ts'
import { settleOptions } from './settle-options.ts'
import { snapshotRoutes } from './snapshots.ts'
import { openSockets } from './sockets.ts'

export interface Server {
  /** `http://127.0.0.1:7117` */
  readonly url: string
  /** What it answers: `GET /psg/plans/:id`. */
  readonly routes: readonly string[]
  /** Ends streams, lets requests under way finish in their time, takes no more. Safe to call twice; the runtime stays yours. */
  close(): Promise<void>
}

export interface ServeOptions extends ServerConfig {
  /** What went wrong that no client is told about. */
  readonly onError?: (error: unknown) => void
  /** How long closing waits for who has sent half a request, does not read an answer, or does not answer a WebSocket's good-bye: 5 s. Twice as long for requests under way. */
  readonly graceMs?: number
}

const GRACE_MS = 5_000
/** The whole of a request has to be here by then. */
const REQUEST_MS = 120_000
/** Connections that came while the thread was busy. Node has 511 wait: of a thousand at once the rest would come a second later, or be cut off. */
const MOST_WAITING = 4_096
/** A path of a file is one parameter. */
const LONGEST_PARAMETER = 4_096

const RUNTIME = needed(having('a runtime, as openRuntime opens them', 'submit', 'flush', 'rollback'))
const OPTIONS: Fields = { onError: method, graceMs: duration, '*': anything } // those of the config are settled apart

/** A runtime over HTTP. Throws Refused for a host beyond loopback without tokens, for a port in use, and where node makes no code of text. */
export async function serve(runtime: ComposedRuntime, options: ServeOptions = {}): Promise<Server> {
  refuseUnlessFit('server', { runtime, options }, { runtime: RUNTIME, options: OPTIONS })
  const { onError: told = () => undefined, graceMs = GRACE_MS, ...server } = options
  const onError = reporter(told)
  const { host, port, body_limit_bytes, door } = settleOptions(server)
  const stop = new AbortController()
  const counted = counters()
  const { answered, blamed, landed } = failuresIn(runtime, onError)
  refuseWithoutCode()
  const { default: fastify } = await import('fastify')
  const app = fastify({
    bodyLimit: body_limit_bytes,
    forceCloseConnections: 'idle',
    return503OnClosing: false, // it would be no problem document: the hook below says it
    requestTimeout: REQUEST_MS,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    // An address that is not one. No hook hears of it, so nobody would know that the connection is idle, and closing would wait for it.
    frameworkErrors: (error, _, reply) => {
      answered(error, problemOfRequest(error), (reply as FastifyReply).header('connection', 'close'))
    },
    clientErrorHandler: (error, socket) => notHttp(error, socket, connections.owed),
  })
  const connections = connectionsOf(app)
  // Of what Node answers to an Expect that it does not know, no hook hears: it would be no problem document, and closing would wait for that connection.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.addHook('onRequest', async (_, reply) => {
    if (stop.signal.aborted) return problemTo(reply, problemOf(new Closed('the server')))
  })
  app.removeContentTypeParser('text/plain') // the one kind of body that any web page may send anywhere
  readJson(app)

  const routes: Route[] = [
    ...psgRoutes(runtime),
    ...snapshotRoutes(runtime),
    ...driftRoutes(runtime),
    ...runRoutes(runtime, { signal: stop.signal }),
    ...confirmRoutes(runtime),
    ...integrationRoutes(runtime),
    ...eventRoutes(runtime, { signal: stop.signal, onError }),
    ...healthRoutes(runtime, counted),
  ]
  routes.push(describing(routes))
  app.addHook('onResponse', async (request, reply) => {
    counted.count(request.method, request.routeOptions.url ?? '-', reply.statusCode)
    if (changes(request) && reply.statusCode < 400) landed()
  })
  app.addHook('onSend', async (_, reply) => {
    if (stop.signal.aborted) reply.header('connection', 'close') // or closing would wait until the client has had enough
  })
  app.setErrorHandler((error, _, reply) => answered(error, problemOfRequest(error), reply))
  const methods = methodsAt(routes)
  app.setNotFoundHandler((request, reply) => {
    door(request.headers, undefined)
    const allowed = methods(request.url)
    if (allowed.length === 0) throw noPath(request)
    reply.header('allow', allowed.join(', '))
    throw noMethod(request, allowed)
  })
  for (const route of routes) register(app, route, { door, answered, blamed })

  await app.ready()
  const sockets = await openSockets(runtime, app.server, { path: '/events', door, graceMs, onError })
  try {
    await listen(app, host, port)
  } catch (error) {
    await sockets.close()
    throw unlessOwn(error, port, runtime.config.bus)
  }
  const closed = async () => {
    let waited = 0
    const late = setInterval(() => connections.overdue(++waited > 1), graceMs) // a store that does not answer keeps nobody from closing
    // Together: whoever came between the two would be let in by nobody and answered by nobody.
    await Promise.all([app.close(), sockets.close()]).finally(() => clearInterval(late))
  }
  let closing: Promise<void> | undefined
  return {
    url: `http://${authority(host, app.server)}`,
    routes: routes.map(({ method, path }) => `${method} ${path}`),
    close() {
      stop.abort()
      closing ??= closed()
      return closing
    },
  }
}

/** Fastify finds its routes by code that it makes of text. */
function refuseWithoutCode(): void {
  try {
    new Function()
  } catch (cause) {
    throw new Refused(
      'node makes no code of text here, and the server has need of it',
      'start node without --disallow-code-generation-from-strings',
      { cause },
    )
  }
}

const changes = ({ method }: FastifyRequest): boolean => method !== 'GET' && method !== 'HEAD'

const problemTo = (reply: FastifyReply, problem: ProblemDocument): FastifyReply =>
  reply.code(problem.status).type('application/problem+json').send(problem)

/** What went wrong is answered, and told here where it is no matter of who asked. */
interface Failures {
  answered(error: unknown, problem: ProblemDocument, reply: FastifyReply): FastifyReply
  /** The error that is to blame: what was refused because the store takes nothing is no matter of who asked. */
  blamed(error: unknown): Promise<unknown>
  /** Something was written. */
  landed(): void
}

function failuresIn(runtime: ComposedRuntime, onError: Report): Failures {
  let isFull = false
  return {
    answered(error, problem, reply) {
      // Of a store that is away the runtime tells once; here it would be with every request. One that can be read and takes no more it meets only in a run.
      const isNews = problem.code === 'unavailable' && changes(reply.request) && !isFull
      if (isNews) isFull = true
      if (problem.status === 500 || isNews) onError(error)
      if (problem.status === 401) reply.header('www-authenticate', 'Bearer')
      return problemTo(reply, problem)
    },
    async blamed(error) {
      if (!(error instanceof Refused)) return error
      try {
        await runtime.checkWriting().catch(unfit)
        return error
      } catch (why) {
        return why
      }
    },
    landed() {
      isFull = false
    },
  }
}

/** What all routes share. */
interface Desk extends Pick<Failures, 'answered' | 'blamed'> {
  readonly door: Door
}

function register(app: FastifyInstance, route: Route, { door, answered, blamed }: Desk): void {
  app.route({
    method: route.method,
    url: route.path,
    exposeHeadRoute: hasHead(route),
    async onRequest(request) {
      door(request.headers, route.role) // before the body is read
      if ((request as Request).params.id === '') throw noPath(request) // `/runs/` names no run
    },
    async handler(request, reply) {
      checkQuery(request.query as object, Object.keys(route.query ?? {}))
      if (route.body) request.body = bodyOf(request.body, route.body)
      reply.code(route.status ?? 200).header('cache-control', 'no-store')
      return route.handle(request as Request, reply).catch(async (given) => {
        const error = await blamed(given)
        return answered(error, problemOf(error), reply)
      })
    },
  })
}

const noPath = ({ method, url }: FastifyRequest): NotFound => new NotFound('path', `${method} ${url.slice(0, 80)}`)

async function listen(app: FastifyInstance, host: string, port: number): Promise<void> {
  try {
    await app.listen({ host, port, backlog: MOST_WAITING })
  } catch (cause) {
    await app.close()
    throw portError(host, port, cause)
  }
}
