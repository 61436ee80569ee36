import type { ComposedRuntime } from '../compose.ts'
import type { Deciding } from '../psg/moves.ts'
import { behind, limitOf, type Route, TEXT } from './route.ts'

const MOST_CONFIRMS = 1_000
const QUESTION = {
  type: 'object',
  properties: {
    confirm: { $ref: 'confirm' },
    context_id: TEXT,
    plan_id: TEXT,
    title: TEXT,
    roles: { type: 'array', items: TEXT },
    needed: { type: 'integer' },
    approved_by: { type: 'array', items: TEXT },
    digest: TEXT,
    shows: { type: 'object' },
    expires_at: TEXT,
  },
} as const

/** What waits for people, and their answers. */
export function confirmRoutes(runtime: ComposedRuntime): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/confirms',
      says: 'What waits for a person, in the order of ids: oldest first, where nobody chose them; `next` is where to go on.',
      role: 'read',
      query: {
        after: 'the `next` of the page before, or an id: only those behind it',
        limit: `at most this many, up to ${MOST_CONFIRMS}`,
      },
      answer: { type: 'object', properties: { confirms: { type: 'array', items: QUESTION }, next: TEXT } },
      async handle({ query }) {
        const limit = limitOf(query, MOST_CONFIRMS)
        const confirms = await runtime.waiting({ limit, ...behind(query) })
        const next = confirms.length === limit ? confirms.at(-1)?.confirm.confirm_id : undefined
        return { confirms, ...(next !== undefined && { next }) }
      },
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
