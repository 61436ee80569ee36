import { isUtf8 } from 'node:buffer'
import { lookup } from 'node:dns/promises'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { type ActionError, InvalidInput, type Problem } from '../protocol/errors.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import { shown } from '../protocol/shown.ts'
import type { Action, Adapter, Call } from './adapter.ts'
import { checkHttpOptions } from './check-options.ts'
import { finalFailure } from './failure.ts'
import { isHeaderName, isHeaderValue, OWN_HEADERS } from './header.ts'
import { addressGuard, type Resolve } from './http-guard.ts'
import { refusal } from './http-refusal.ts'
import { type Answer, httpSender, type Request, SAFE } from './http-send.ts'
import { unknownParams } from './unknown-params.ts'

export type { Resolve } from './http-guard.ts'

export interface HttpOptions {
  /** Private and local addresses that may be reached all the same: `host`, `host:port`, or a range such as `10.1.0.0/16`. */
  readonly allow?: readonly string[]
  /** Headers with credentials for a URL: asked for each request and each redirect, so that they never follow one to another origin. */
  readonly credentials?: (url: URL) => Readonly<Record<string, string>> | undefined
  /** Every secret that `credentials` may give, so that none is seen in an error or an event. */
  readonly secrets?: readonly string[]
  /** 8 MiB when absent. */
  readonly maxResponseBytes?: number
  /** 5 when absent. */
  readonly maxRedirects?: number
  readonly resolve?: Resolve
  readonly clock?: Clock
}

/**
 * Does `http_request`: params `{ url, method?, query?, headers?, body?, accept_status? }`, body and answer as JSON where they are JSON. Gives
 * `{ status, headers, body }`, or `body_base64` for what is not text in UTF-8; any other status than 2xx fails unless `accept_status` names it.
 */
export function httpAdapter(options: HttpOptions = {}): Adapter {
  checkHttpOptions(options)
  const { secrets = [], resolve = (hostname) => lookup(hostname, { all: true }) } = options
  const { clock = systemClock, maxResponseBytes = 8 * 1024 * 1024, maxRedirects = 5 } = options
  const credentials = (url: URL) => lowered(options.credentials?.(url))
  const sender = httpSender({
    guard: addressGuard(options.allow ?? [], resolve),
    credentials,
    maxResponseBytes,
    maxRedirects,
  })

  return {
    action_type: 'http_request',
    executor_kind: 'external',
    paramNames: PARAMS,
    secrets: () => secrets,
    label: (params) => `${methodOf(params)} ${hostOf(params)}`,
    readOnly: (params) => SAFE.includes(methodOf(params)),

    check(params) {
      const problems = problemsOf(params)
      if (problems.length > 0) throw new InvalidInput('http_request', problems)
    },

    async execute(action, call) {
      const answer = await sender.send(requestOf(action, call))
      if (!isAccepted(answer.status, action.params)) throw refusalOf(answer, clock.now())
      return { output: outputOf(answer) }
    },

    inverse: (action) => (SAFE.includes(methodOf(action.params)) ? 'none_needed' : 'irreversible'),

    async close() {
      sender.close()
    },
  }
}

const METHODS = [...SAFE, 'POST', 'PUT', 'PATCH', 'DELETE']
const OURS = new Set([...OWN_HEADERS, 'idempotency-key'])
const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie', 'x-api-key'])

const methodOf = ({ method = 'GET' }: JsonObject): string =>
  typeof method === 'string' ? method.toUpperCase() : shown(method)
const hostOf = (params: JsonObject): string =>
  typeof params.url === 'string' && URL.canParse(params.url) ? new URL(params.url).host : 'nowhere'

const PARAMS = ['url', 'method', 'headers', 'query', 'body', 'accept_status']

function problemsOf(params: JsonObject): Problem[] {
  const { url, headers = {}, query = {}, accept_status = [] } = params
  const problems = unknownParams(params, PARAMS)
  const blame = blaming(problems)
  if (typeof url !== 'string' || !URL.canParse(url)) blame('url', 'url', 'must be a URL', url)
  else {
    const { protocol, username, password } = new URL(url)
    if (!/^https?:$/.test(protocol)) blame('url', 'protocol', 'must be http or https', protocol)
    if (username !== '' || password !== '') blame('url', 'credentials', 'must not hold a name or a password', 'a name')
  }
  if (!METHODS.includes(methodOf(params)))
    blame('method', 'enum', `must be one of ${METHODS.join(', ')}`, params.method)
  if (!isObject(query)) blame('query', 'type', 'must be an object', query)
  if (!isObject(headers)) blame('headers', 'type', 'must be an object', headers)
  else
    for (const [name, value] of Object.entries(headers)) {
      const lower = name.toLowerCase()
      if (!isHeaderName(name)) blame(`headers.${name}`, 'name', 'is not a header name', name)
      else if (OURS.has(lower)) blame(`headers.${name}`, 'reserved', 'is set by the runtime', name)
      else if (CREDENTIALS.has(lower))
        blame(`headers.${name}`, 'credentials', 'belongs to the adapter: parameters are stored', name)
      if (!isHeaderValue(value))
        blame(`headers.${name}`, 'value', 'must be one line of text without characters above U+00FF', name)
    }
  if (!Array.isArray(accept_status) || !accept_status.every(Number.isInteger))
    blame('accept_status', 'type', 'must be a list of status codes', accept_status)
  return problems
}

function requestOf({ params, idempotency_key }: Action, { run, execution_id, signal }: Call): Request {
  const method = methodOf(params)
  return {
    url: withQuery(new URL(params.url as string), params.query),
    method,
    body: params.body,
    signal,
    accepts: (params.accept_status ?? []) as readonly Json[],
    headers: {
      ...(run && { 'x-trace-id': run.trace_id, 'x-span-id': execution_id }),
      ...lowered(params.headers),
      ...(!SAFE.includes(method) && idempotency_key !== '' && { 'idempotency-key': idempotency_key }),
    },
  }
}

function withQuery(url: URL, query: Json | undefined): URL {
  for (const [key, value] of Object.entries((query ?? {}) as JsonObject))
    for (const item of Array.isArray(value) ? value : [value])
      url.searchParams.append(key, typeof item === 'string' ? item : JSON.stringify(item))
  return url
}

const lowered = (headers: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(Object(headers)).map(([name, value]) => [name.toLowerCase(), String(value)]))

const isAccepted = (status: number, { accept_status = [] }: JsonObject): boolean =>
  (status >= 200 && status < 300) || (accept_status as readonly Json[]).includes(status)

const refusalOf = ({ status, headers, url: { host }, body }: Answer, now: number): ActionError =>
  refusal({ host, status, headers, words: body.subarray(0, 2_000).toString() }, now)

const SHOWN_HEADERS = ['content-type', 'content-encoding', 'etag', 'last-modified', 'location', 'link', 'x-request-id']

function outputOf(answer: Answer): JsonObject {
  const { status, headers, url } = answer
  const kept = SHOWN_HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]] as const]))
  return { status, url: `${url.origin}${url.pathname}`, headers: Object.fromEntries(kept), ...bodyOf(answer) }
}

function bodyOf({ headers, body, url }: Answer): JsonObject {
  if (body.length === 0) return {}
  const type = headers['content-type'] ?? ''
  const inUtf8 = isUtf8(body) // another charset would be damaged
  if (inUtf8 && /[/+]json\b/i.test(type)) return { body: parsed(body, url) }
  const isText = inUtf8 && /^text\/|xml|javascript|x-www-form-urlencoded/i.test(type)
  return isText ? { body: body.toString() } : { body_base64: body.toString('base64') }
}

function parsed(body: Buffer, url: URL): Json {
  try {
    return JSON.parse(new TextDecoder().decode(body)) // which leaves out a byte order mark
  } catch (cause) {
    throw finalFailure(`${url.host} called its answer JSON, but it is not`, { cause })
  }
}
