import { schemas } from '../protocol/generated/schemas.ts'
import type { JsonObject } from '../protocol/json.ts'
import { VERSION } from '../protocol/version.ts'
import { isNeeded } from './check-request.ts'
import type { Route } from './route.ts'

/** The route that tells of all the others, and of itself once it is among them. */
export function describing(routes: readonly Route[]): Route {
  let described: string | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    says: 'This interface as OpenAPI 3.1.',
    async handle(_, reply) {
      described ??= JSON.stringify(openApi(routes)) // it is long, and anybody may ask for it
      reply.type('application/json')
      return described
    },
  }
}

/** OpenAPI 3.1, written from the routes that are served and the schemas that are enforced. */
function openApi(routes: readonly Route[]): JsonObject {
  const paths: { [path: string]: { [method: string]: JsonObject } } = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'mplp-runtime', version: VERSION },
    paths,
    components: {
      schemas: { ...(pointed(schemas) as JsonObject), problem: PROBLEM },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operation(route: Route): JsonObject {
  const { says, role, query = {}, body, status = 200, answer, type = 'application/json' } = route
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => parameter(name!, 'path', ''))
  const inQuery = Object.entries(query).map(([name, what]) => parameter(name, 'query', what))
  const content = status === 204 ? {} : { content: { [type]: { schema: answer ? pointed(answer) : {} } } }
  return {
    summary: says,
    ...(role !== undefined && { security: [{ token: [] }], 'x-role': role }),
    parameters: [...inPath, ...inQuery],
    ...(body && {
      requestBody: {
        required: isNeeded(body),
        content: { 'application/json': { schema: pointed(body) } },
      },
    }),
    responses: {
      [status]: { description: says, ...content },
      default: {
        description: 'What went wrong, and where.',
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/problem' } } },
      },
    },
  } as JsonObject
}

const parameter = (name: string, where: 'path' | 'query', description: string): JsonObject => ({
  name,
  in: where,
  required: where === 'path',
  ...(description !== '' && { description }),
  schema: { type: 'string' },
})

/** Our references name a kind; OpenAPI's point into the document. */
function pointed(value: unknown): JsonObject[string] {
  if (Array.isArray(value)) return value.map(pointed)
  if (typeof value !== 'object' || value === null) return value as JsonObject[string]
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === '$ref' && typeof inner === 'string' ? `#/components/schemas/${inner}` : pointed(inner),
    ]),
  )
}

const PROBLEM: JsonObject = {
  title: 'Problem',
  type: 'object',
  required: ['type', 'title', 'status', 'code'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string' },
    detail: { type: 'string' },
    problems: { type: 'array', items: { type: 'object' } },
    violations: { type: 'array', items: { type: 'object' } },
  },
}
