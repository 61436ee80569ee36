import type { ComposedRuntime } from '../compose.ts'
import { INTEGRATION_KINDS } from '../orchestrator/ingest.ts'
import { type Route, TEXT, textOf, wordOf } from './route.ts'

/** What tools, editors, git and CI tell. */
export function integrationRoutes(runtime: ComposedRuntime): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/integration/events',
      says: 'Takes in an event of a tool, a file, git or CI; it is told as external_integration.',
      role: 'run',
      body: {
        type: 'object',
        required: ['context_id', 'kind', 'event'],
        properties: {
          context_id: { $ref: 'identifier' },
          kind: { type: 'string', enum: INTEGRATION_KINDS },
          event: { type: 'object' },
          source: TEXT,
        },
        additionalProperties: false,
      },
      status: 202,
      async handle({ body }) {
        const kind = wordOf(body, 'kind', INTEGRATION_KINDS)
        const source = body.source === undefined ? {} : { source: textOf(body, 'source') }
        await runtime.ingest(textOf(body, 'context_id'), kind, body.event, source)
        return { accepted: true }
      },
    },
  ]
}
