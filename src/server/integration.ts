import type { ComposedRuntime } from '../compose.ts'
import type { IntegrationKind } from '../orchestrator/runtime.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { fieldsOf, type Route, TEXT, textOf } from './route.ts'

const KINDS: readonly IntegrationKind[] = ['tool-event', 'file-update-event', 'git-event', 'ci-event']

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
          kind: { type: 'string', enum: KINDS },
          event: { type: 'object' },
          source: TEXT,
        },
        additionalProperties: false,
      },
      status: 202,
      async handle({ body }) {
        const fields = fieldsOf(body, ['context_id', 'kind', 'event', 'source'])
        const kind = KINDS.find((known) => known === fields.kind)
        if (!kind)
          throw new InvalidInput('body', [
            { path: 'kind', rule: 'enum', message: `is none of ${KINDS.join(', ')}`, found: shown(fields.kind) },
          ])
        const source = fields.source === undefined ? {} : { source: textOf(fields, 'source') }
        await runtime.ingest(textOf(fields, 'context_id'), kind, fields.event, source)
        return { accepted: true }
      },
    },
  ]
}
