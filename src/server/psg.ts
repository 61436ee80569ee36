import type { ComposedRuntime } from '../compose.ts'
import { statusesOf } from '../protocol/lifecycle.ts'
import { unlessNotFound } from '../protocol/unless-not-found.ts'
import { INDEX } from '../psg/indexes.ts'
import { pathsOf } from '../psg/paths.ts'
import { caughtUp } from '../psg/project.ts'
import { findNamed, shownAs, type ToldReason, whyOf } from './find.ts'
import { behind, by, limitOf, type Route, TEXT, wordOf } from './route.ts'

const STATUSES = statusesOf('plan')
const MOST_CONTEXTS = 1_000

/** The protocol's own paths, and any object by its id. */
export function psgRoutes(runtime: ComposedRuntime): readonly Route[] {
  const { project, store, folder, propose } = runtime
  const paths = pathsOf(project)
  const named = (id: string) => findNamed(project, id, folder)
  return [
    {
      method: 'GET',
      path: '/psg/contexts',
      says: 'The ids of contexts, in order; `next` is where to go on.',
      role: 'read',
      query: { after: 'an id: only those behind it', limit: `at most this many, up to ${MOST_CONTEXTS}` },
      answer: { type: 'object', properties: { contexts: { type: 'array', items: TEXT }, next: TEXT } },
      async handle({ query }) {
        const limit = limitOf(query, MOST_CONTEXTS)
        const contexts: string[] = []
        const prefix = INDEX.id('context', '')
        const { after } = behind(query)
        const from = { limit, ...(after !== undefined && { after: `${prefix}${after}` }) }
        for await (const [key] of store.scan(prefix, from)) contexts.push(key.slice(prefix.length))
        return { contexts, ...(contexts.length === limit && { next: contexts.at(-1) }) }
      },
    },
    {
      method: 'POST',
      path: '/psg/contexts',
      says: 'A new context.',
      role: 'run',
      body: { $ref: 'context' },
      status: 201,
      answer: { $ref: 'context' },
      handle: ({ body }) => paths.postContext(body, by('posted')),
    },
    {
      method: 'GET',
      path: '/psg/contexts/:id',
      says: 'A context.',
      role: 'read',
      answer: { $ref: 'context' },
      async handle({ params: { id } }) {
        await (await project.context(id)).refresh()
        return paths.getContext(id)
      },
    },
    {
      method: 'POST',
      path: '/psg/plans',
      says: 'A new plan in a context that is there; it runs when it is submitted as a run, not by this.',
      role: 'run',
      body: { $ref: 'plan' },
      status: 201,
      answer: { $ref: 'plan' },
      handle: ({ body }) => paths.postPlan(body, by('posted')),
    },
    {
      method: 'GET',
      path: '/psg/plans/:id',
      says: 'A plan with its steps, as they stand.',
      role: 'read',
      answer: { $ref: 'plan' },
      async handle({ params: { id } }) {
        const where = await project.locate(id, 'plan')
        if (where) await caughtUp(project, where)
        return paths.getPlan(id)
      },
    },
    {
      method: 'PATCH',
      path: '/psg/plans/:id/status',
      says: 'Moves a plan where its lifecycle lets it go; to `proposed` it asks for approval.',
      role: 'run',
      body: {
        type: 'object',
        required: ['status'],
        properties: { status: { type: 'string', enum: STATUSES } },
        additionalProperties: false,
      },
      answer: { $ref: 'plan' },
      async handle({ params: { id }, body }) {
        const status = wordOf(body, 'status', STATUSES)
        if (status !== 'proposed') return paths.patchPlanStatus(id, status, by('patched'))
        await propose(id, { requested_by_role: by('patched').actor }) // a run may wait for it, and every step needs a binding then
        return paths.getPlan(id)
      },
    },
    {
      method: 'DELETE',
      path: '/psg/plans/:id',
      says: 'Takes away a plan that nothing refers to.',
      role: 'run',
      status: 204,
      handle: ({ params: { id } }) => paths.deletePlan(id, by('deleted')),
    },
    {
      method: 'GET',
      path: '/objects/:id',
      says: 'Anything by its id, a file also by its path: an L1 document of what the protocol knows.',
      role: 'read',
      handle: async ({ params: { id } }) => shownAs(await named(id)),
    },
    {
      method: 'GET',
      path: '/objects/:id/why',
      says: 'The chain that led to it: context, plan, approval, step, action.',
      role: 'read',
      handle: async ({ params: { id } }) => withPlaceless(runtime, await whyOf(project, await named(id))),
    },
    {
      method: 'GET',
      path: '/objects/:id/history',
      says: 'Every change of it, with who and why.',
      role: 'read',
      async handle({ params }) {
        const { graph, kind, id } = await named(params.id)
        return graph.history(kind, id)
      },
    },
  ]
}

/** The same, with what only this process knows of it: which steps wait for a place here. */
async function withPlaceless(runtime: ComposedRuntime, chain: readonly ToldReason[]): Promise<readonly ToldReason[]> {
  const step = chain.find(({ kind, status }) => kind === 'step' && (status === 'pending' || status === 'in_progress'))
  const plan = step && chain.find(({ kind }) => kind === 'plan')
  const run = plan && (await runtime.get(plan.id).catch(unlessNotFound))
  const found = run?.withoutPlace.find(({ step_id }) => step_id === step?.id)
  return found ? chain.map((one) => (one === step ? { ...one, without_place: found.action_type } : one)) : chain
}
