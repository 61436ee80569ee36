import type { ComposedRuntime } from '../compose.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import type { Flow } from '../orchestrator/submit.ts'
import { choiceOf, countOf, fieldsOf, flagOf, type Route, TEXT, textOf } from './route.ts'

const LONGEST_WAIT_MS = 60_000
const RUN = {
  type: 'object',
  properties: {
    run_id: TEXT,
    plan_id: TEXT,
    context_id: TEXT,
    trace_id: TEXT,
    phase: TEXT,
    result: { type: 'object' },
  },
} as const

/** Runs: a flow in, and what can be done with it while it goes on. An id is the run's, its plan's or its trace's. */
export function runRoutes(runtime: ComposedRuntime, closing: { readonly signal: AbortSignal }): readonly Route[] {
  const wish = (name: 'cancel' | 'pause' | 'resume', says: string): Route => ({
    method: 'POST',
    path: `/runs/:id/${name}`,
    says,
    role: 'run',
    status: 202,
    answer: RUN,
    async handle({ params: { id } }) {
      await runtime[name](id)
      return told(await runtime.get(id))
    },
  })
  return [
    {
      method: 'POST',
      path: '/runs',
      says: 'Submits a flow: context (or its id), plan, bindings, approval, options. It runs from here on by itself.',
      role: 'run',
      body: {
        type: 'object',
        required: ['context', 'plan'],
        properties: {
          context: {},
          plan: { $ref: 'plan' },
          bindings: { type: 'object' },
          approval: {},
          options: { type: 'object' },
          chosen: { type: 'object' },
        },
        additionalProperties: false,
      },
      status: 202,
      answer: RUN,
      async handle({ body }, reply) {
        const run = await runtime.submit(body as Flow)
        reply.header('location', `/runs/${run.run_id}`)
        return told(run)
      },
    },
    {
      method: 'GET',
      path: '/runs',
      says: 'What runs.',
      role: 'read',
      answer: { type: 'array', items: RUN },
      handle: async () => Promise.all((await runtime.list()).map(told)),
    },
    {
      method: 'GET',
      path: '/runs/:id',
      says: 'A run, with its result once it has ended.',
      role: 'read',
      query: { wait_ms: `answer when it has ended or waits for somebody, but after this long at the latest` },
      answer: RUN,
      async handle({ params: { id }, query, raw }) {
        const run = await runtime.get(id)
        if (query.wait_ms !== undefined) {
          const gone = new AbortController()
          raw.once('close', () => gone.abort())
          const timely = AbortSignal.timeout(countOf(query, 'wait_ms', LONGEST_WAIT_MS))
          await rested(run, AbortSignal.any([gone.signal, timely, closing.signal]))
        }
        return told(await runtime.get(id))
      },
    },
    wish('cancel', 'Ends a run: what is under way is told to stop.'),
    wish('pause', 'Lets what is under way finish and starts nothing more.'),
    wish('resume', 'Goes on with a paused run.'),
    {
      method: 'POST',
      path: '/runs/:id/rollback',
      says: 'Takes back what a run did that has ended: effects, files, graph. What cannot be undone is asked about first, unless it is to be left.',
      role: 'admin',
      body: {
        type: 'object',
        properties: { dry_run: { type: 'boolean' }, irreversible: { type: 'string', enum: ['ask', 'leave'] } },
        additionalProperties: false,
      },
      answer: { type: 'object', properties: { status: TEXT, plan: { type: 'object' }, left: { type: 'array' } } },
      async handle({ params: { id }, body }) {
        const fields = fieldsOf(body ?? {}, ['dry_run', 'irreversible'])
        const irreversible = choiceOf(fields, 'irreversible', ['ask', 'leave'])
        return runtime.rollback(id, {
          dryRun: flagOf(fields, 'dry_run'),
          ...(irreversible !== undefined && { irreversible }),
          actor: 'http',
        })
      },
    },
    {
      method: 'POST',
      path: '/runs/:id/signal',
      says: 'Hands something to a run: a step that waits for that name takes it.',
      role: 'run',
      body: {
        type: 'object',
        required: ['name'],
        properties: { name: TEXT, payload: {} },
        additionalProperties: false,
      },
      status: 202,
      answer: RUN,
      async handle({ params: { id }, body }) {
        const fields = fieldsOf(body, ['name', 'payload'])
        await runtime.signal(id, textOf(fields, 'name'), fields.payload ?? null)
        return told(await runtime.get(id))
      },
    },
  ]
}

async function told(run: RunHandle) {
  const { run_id, plan_id, context_id, trace_id, phase } = run
  return {
    run_id,
    plan_id,
    context_id,
    trace_id,
    phase,
    ...(phase === 'ended' && { result: await run.result() }),
  }
}

/** Until the run rests, or nobody waits for that any longer. */
async function rested(run: RunHandle, signal: AbortSignal): Promise<void> {
  await run.rest(signal).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}
