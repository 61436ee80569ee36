import type { ComposedRuntime } from '../compose.ts'
import type { Deciding } from '../psg/moves.ts'
import { type Route, TEXT } from './route.ts'

/** What waits for people, and their answers. */
export function confirmRoutes(runtime: ComposedRuntime): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/confirms',
      says: 'What waits for a person, oldest first.',
      role: 'read',
      answer: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            confirm: { $ref: 'confirm' },
            context_id: TEXT,
            plan_id: TEXT,
            roles: { type: 'array', items: TEXT },
            needed: { type: 'integer' },
            approved_by: { type: 'array', items: TEXT },
            digest: TEXT,
            shows: { type: 'object' },
            expires_at: TEXT,
          },
        },
      },
      handle: async () => runtime.waiting(),
    },
    {
      method: 'POST',
      path: '/confirms/:id/decisions',
      says: 'Adds a decision; with `digest` only about what was seen.',
      role: 'decide',
      body: {
        type: 'object',
        required: ['status', 'decided_by_role'],
        properties: {
          status: { type: 'string', enum: ['approved', 'rejected', 'cancelled'] },
          decided_by_role: TEXT,
          reason: { type: 'string' },
          decision_id: { $ref: 'identifier' },
          digest: TEXT,
        },
        additionalProperties: false,
      },
      answer: { $ref: 'confirm' },
      handle: ({ params: { id }, body }) => runtime.decide(id, body as unknown as Deciding),
    },
  ]
}
