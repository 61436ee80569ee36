import type { ComposedRuntime } from '../compose.ts'
import { flowIn } from '../orchestrator/named-flow.ts'
import type { RerunOptions } from '../orchestrator/rerun.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import type { Flow } from '../orchestrator/submit.ts'
import { Closed, InvalidInput } from '../protocol/errors.ts'
import { PLAN_ENDINGS } from '../protocol/lifecycle.ts'
import { unlessNotFound } from '../protocol/unless-not-found.ts'
import { endedRuns, isPlace, placeOf } from '../psg/ended-runs.ts'
import { openPlans } from '../psg/open-plans.ts'
import { goneOf } from './gone.ts'
import { behind, choiceOf, countOf, flagOf, limitOf, type Route, TEXT, textOf } from './route.ts'
import { toldEnded, toldRun, toldWithChildren } from './told-run.ts'

const LONGEST_WAIT_MS = 60_000
const MOST_RUNS = 1_000
const PHASES = ['running', 'waiting', 'paused', 'undoing', 'ended'] as const
const RUN = {
  type: 'object',
  properties: {
    run_id: TEXT,
    plan_id: TEXT,
    context_id: TEXT,
    trace_id: TEXT,
    phase: TEXT,
    title: TEXT,
    rerun_of: TEXT,
    waits_for: { type: 'array', items: TEXT },
    requested: TEXT,
    parent: { type: 'object', properties: { run_id: TEXT, step_id: TEXT, action_id: TEXT } },
    children: { type: 'array', items: TEXT },
    lacking: { type: 'object', properties: { step_id: TEXT, what: TEXT, name: TEXT } },
    without_place: {
      type: 'array',
      items: { type: 'object', properties: { step_id: TEXT, action_type: TEXT } },
    },
    result: { type: 'object' },
  },
} as const
const ENDED = {
  type: 'object',
  properties: {
    ...RUN.properties,
    status: TEXT,
    started_at: TEXT,
    ended_at: TEXT,
    error: { type: 'object' },
  },
} as const

/** Runs: a flow in, and what can be done with it while it goes on. An id is the run's, its plan's or its trace's. */
export function runRoutes(runtime: ComposedRuntime, closing: { readonly signal: AbortSignal }): readonly Route[] {
  const told = (run: RunHandle) => toldRun(runtime, run)
  const wish = (name: 'cancel' | 'pause' | 'resume', says: string): Route => ({
    method: 'POST',
    path: `/runs/:id/${name}`,
    says,
    role: 'run',
    status: 202,
    answer: RUN,
    async handle({ params: { id } }) {
      if (name !== 'cancel' && (await runtime.get(id)).phase === 'ended')
        throw new InvalidInput(name, [{ path: 'run', rule: 'ended', message: `${id} has ended` }])
      await runtime[name](id)
      return told(await runtime.get(id))
    },
  })
  return [
    {
      method: 'POST',
      path: '/runs',
      says: 'Submits a flow: context (or its id), plan, bindings, approval, options; or one in short, by title and steps. It runs from here on by itself.',
      role: 'run',
      body: {
        type: 'object',
        anyOf: [{ required: ['context', 'plan'] }, { required: ['title', 'steps'] }],
        properties: {
          context: {},
          plan: { $ref: 'plan' },
          title: TEXT,
          objective: TEXT,
          steps: { type: 'object' },
          bindings: { type: 'object' },
          approval: {},
          options: { type: 'object' },
          chosen: { type: 'object' },
        },
        additionalProperties: false,
      },
      status: 202,
      answer: { ...RUN, properties: { ...RUN.properties, steps: { type: 'object' } } },
      async handle({ body }, reply) {
        const { flow, ids } = flowIn(body)
        const run = await runtime.submit(flow as Flow)
        reply.header('location', `/runs/${run.run_id}`)
        return { ...(await told(run)), ...(ids && { steps: ids }) }
      },
    },
    {
      method: 'GET',
      path: '/runs',
      says: 'Runs that have not ended, in the order of their plans, or those that have, the last one first; `next` is where to go on.',
      role: 'read',
      query: {
        phase: `only those in it: ${PHASES.join(', ')}`,
        status: `of those that have ended: only these: ${PLAN_ENDINGS.join(', ')}`,
        after: 'the `next` of the page before, or the id of a plan: only those behind it',
        limit: `at most this many, up to ${MOST_RUNS}`,
      },
      answer: { type: 'object', properties: { runs: { type: 'array', items: ENDED }, next: TEXT } },
      async handle({ query, raw }) {
        const limit = limitOf(query, MOST_RUNS)
        const phase = choiceOf(query, 'phase', PHASES, 'query')
        const status = choiceOf(query, 'status', PLAN_ENDINGS, 'query')
        const from = behind(query)
        const { signal } = goneOf(raw, closing.signal)
        if (phase === 'ended') return endedPage(runtime, { status, after: from.after, limit, signal })
        if (status !== undefined)
          throw new InvalidInput('query', [{ path: 'status', rule: 'ended', message: 'goes with phase=ended' }])
        const runs: RunHandle[] = []
        for await (const { group } of openPlans(runtime.store, from)) {
          if (runs.length === limit) break
          refuseOnceGone(signal)
          const run = await runtime.get(group).catch(unlessNotFound) // a plan that nobody has submitted has none
          if (run && run.phase !== 'ended' && (phase === undefined || run.phase === phase)) runs.push(run)
        }
        return {
          runs: await Promise.all(runs.map(told)),
          ...(runs.length === limit && { next: runs.at(-1)!.plan_id }),
        }
      },
    },
    {
      method: 'GET',
      path: '/runs/:id',
      says: 'A run, with its result once it has ended.',
      role: 'read',
      query: { wait_ms: 'answer when it has ended or waits for somebody, but after this long at the latest' },
      answer: RUN,
      async handle({ params: { id }, query, raw }) {
        const run = await runtime.get(id)
        if (query.wait_ms !== undefined) {
          const timely = AbortSignal.timeout(countOf(query, 'wait_ms', LONGEST_WAIT_MS))
          await rested(run, AbortSignal.any([goneOf(raw, closing.signal).signal, timely]))
        }
        return toldWithChildren(runtime, await runtime.get(id))
      },
    },
    wish('cancel', 'Ends a run: what is under way is told to stop.'),
    wish('pause', 'Lets what is under way finish and starts nothing more, also in its children.'),
    wish('resume', 'Goes on with a paused run, and with its children.'),
    {
      method: 'POST',
      path: '/runs/:id/rerun',
      says: 'Goes on where a run has failed or was cancelled, in a run of its own, which is answered with: what was done is not done again. Asked twice it is the same run.',
      role: 'run',
      body: {
        type: 'object',
        properties: { options: { type: 'object' }, reason: TEXT },
        additionalProperties: false,
      },
      status: 202,
      answer: RUN,
      async handle({ params: { id }, body }, reply) {
        const run = await runtime.rerun(id, { ...(body as RerunOptions), actor: 'http' })
        reply.header('location', `/runs/${run.run_id}`)
        return told(run)
      },
    },
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
        const irreversible = choiceOf(body, 'irreversible', ['ask', 'leave'])
        return runtime.rollback(id, {
          dryRun: flagOf(body, 'dry_run'),
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
        await runtime.signal(id, textOf(body, 'name'), body.payload ?? null)
        return told(await runtime.get(id))
      },
    },
  ]
}

interface Wanted {
  readonly status: string | undefined
  readonly after: string | undefined
  readonly limit: number
  readonly signal: AbortSignal
}

async function endedPage(runtime: ComposedRuntime, { status, after, limit, signal }: Wanted) {
  const from = after === undefined || isPlace(after) ? after : (await runtime.get(after)).run_id
  const onLook = () => refuseOnceGone(signal)
  const runs: object[] = []
  let next: string | undefined
  for await (const run of endedRuns(runtime.project, { status, after: from, onLook })) {
    if (runs.push(toldEnded(run)) < limit) continue
    next = placeOf(run) // the run itself may be removed before the next page
    break
  }
  return { runs, next }
}

/** There may be thousands more to look at, and nobody to tell. */
function refuseOnceGone(signal: AbortSignal): void {
  if (signal.aborted) throw new Closed('what asked for the runs')
}

/** Until the run rests, or nobody waits for that any longer. */
async function rested(run: RunHandle, signal: AbortSignal): Promise<void> {
  await run.rest(signal).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}
