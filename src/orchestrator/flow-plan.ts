import { NotFound } from '../protocol/errors.ts'
import { whenAborted } from '../protocol/on-abort.ts'
import type { Confirm, Plan } from '../protocol/types.ts'
import { confirmOf } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { FlowFailure, inCapitals, olderRetry } from './flow.ts'
import { decideAs } from './flow-approval.ts'
import { forget, unfit } from './flow-entry.ts'
import { contextOf, documentsOf, refuseBreaches, tellMetadata } from './flow-modules.ts'
import { waitsFor } from './flow-waits.ts'
import type { RunHandle } from './run.ts'
import type { Documents, Running } from './run-flow.ts'

/** Runs the plan that the modules made, if they made one, until it has ended or somebody must come. */
export async function carryOut(running: Running): Promise<void> {
  const { plan, confirm } = documentsOf(running) as { plan?: Plan; confirm?: Confirm }
  if (!plan) return
  const { runtime, record, events, signal } = running
  const graph = await contextGraph(running, plan)
  events.plans.add(plan.plan_id)
  events.follow(graph.id, record.memory.from[graph.id] ?? graph.revision)
  const handle = await submitted(running, graph, plan, confirm)
  tellMetadata(running, { context_id: graph.id, plan_id: plan.plan_id, trace_id: handle.trace_id })
  const stop = stopsWith(signal, handle)
  try {
    if (confirm && !signal.aborted) await decided(running, confirm, handle)
    const rest = await stop.unlessFailed(restOf(handle, stop.told))
    await tellDocuments(running, graph, handle)
    if (rest === 'waiting') throw await waitsFor(runtime.project, graph, handle)
    await conclude(running, handle)
  } finally {
    stop.unlink()
  }
}

/** Whoever told a run to stop while it waited does not hear that it waits. */
async function restOf(handle: RunHandle, told: () => Promise<boolean>): Promise<'ended' | 'waiting'> {
  const rest = await handle.rest()
  return rest === 'waiting' && (await told()) ? handle.rest() : rest
}

/** Tells the run to stop when the caller says so. */
function stopsWith(signal: AbortSignal, handle: RunHandle) {
  let cancelling: Promise<void> | undefined
  let fail: (error: unknown) => void
  const failed = new Promise<never>((_, reject) => {
    fail = reject
  })
  failed.catch(() => undefined) // whoever waits for the run hears of it
  const cancel = () => {
    cancelling = handle.cancel()
    cancelling.catch(fail)
  }
  const unlink = whenAborted(signal, cancel)
  return {
    /** True once the wish is stored, false if there was none. */
    told: async () => {
      await cancelling
      return cancelling !== undefined
    },
    /** A wish that cannot be stored ends the waiting: the run goes on without us when its store comes back. */
    unlessFailed: <T>(work: Promise<T>) => Promise.race([work, failed]),
    unlink,
  }
}

/** Submits the plan, or takes up the run that an earlier call with this runId began. */
async function submitted(
  running: Running,
  graph: ProjectGraph,
  plan: Plan,
  confirm: Confirm | undefined,
): Promise<RunHandle> {
  const { runtime, record, flow, ctx, profile, clock } = running
  const { ids } = record.memory
  if ((await runtime.project.locate(ids.run))?.kind === 'run') return runtime.get(ids.run)
  const { trace: _, ...said } = documentsOf(running) // the trace is written by the run, and checked when it is
  const home = await runtime.project.context(contextOf(running)!) // the flow's own: a plan of another one does not fit it
  const documents = { ...said, context: home.get('context', home.id)!.data }
  try {
    refuseBreaches(profile.breaches(documents))
    if (confirm) refuseOther(confirm, plan)
    const retry = olderRetry(ctx.options)
    const options = {
      ...(retry && { retry }),
      ...flow.options,
      ...profile.runOptions(documents, flow),
      profile: profile.name,
    }
    return await runtime.submit({
      context: graph.id,
      plan,
      options,
      chosen: { run: ids.run, trace: ids.trace, confirm: ids.confirm },
      ...(flow.bindings && { bindings: flow.bindings }),
      approval: confirm ? asked(confirm) : (flow.approval ?? 'auto'),
    })
  } catch (error) {
    const failure = unfit(error, 'the plan')
    if (failure instanceof FlowFailure) {
      await record.keep({ ids: { ...ids, trace: clock.uuid(), confirm: clock.uuid() } }) // those that modules gave may be another's
      await forget(record, 'plan', 'confirm', 'trace', ...(isOfCollab(failure) ? ['collab'] : [])) // the next call asks them again
    }
    throw failure
  }
}

/** A Confirm of which something cannot be taken in is asked for again by the next call. */
async function decided({ runtime, record }: Running, confirm: Confirm, handle: RunHandle): Promise<void> {
  try {
    refuseOther(confirm, handle)
    await decideAs(confirm, runtime, handle, record.memory)
  } catch (error) {
    const failure = unfit(error, 'the Confirm')
    if (failure instanceof FlowFailure) await forget(record, 'confirm')
    throw failure
  }
}

function refuseOther({ target_type, target_id }: Confirm, { plan_id }: { readonly plan_id: string }): void {
  if (target_type === 'plan' && target_id === plan_id) return
  throw new FlowFailure('INVALID_OUTPUT', `the Confirm is about ${target_type} ${target_id}, not plan ${plan_id}`)
}

/** A Collab is in the graph before the plan is; whether it can be the plan's session shows only then. */
const isOfCollab = ({ more: { problems = [] } }: FlowFailure): boolean =>
  problems.some(({ path }) => /^collab(\.|$)/.test(path))

const asked = ({ requested_by_role, reason }: Confirm) => ({
  requested_by_role,
  ...(reason !== undefined && { reason }),
})

async function contextGraph({ runtime, record }: Running, plan: Plan): Promise<ProjectGraph> {
  try {
    return await runtime.project.context(plan.context_id)
  } catch (error) {
    if (!(error instanceof NotFound)) throw error
    await forget(record, 'plan', 'confirm', 'trace')
    const problem = {
      path: 'plan.context_id',
      rule: 'reference.resolves',
      message: 'names a context that is not there',
    }
    throw new FlowFailure('INVALID_OUTPUT', `plan ${plan.plan_id} ${problem.path} ${problem.message}`, {
      problems: [problem],
    })
  }
}

/** The documents as they now stand in the graph. */
async function tellDocuments(running: Running, graph: ProjectGraph, handle: RunHandle): Promise<void> {
  const { ctx } = running
  const { collab } = documentsOf(running)
  await graph.load(handle.plan_id) // what has ended may have left memory
  const confirm = confirmOf(graph, handle.plan_id)
  const documents = {
    context: await graph.document('context', graph.id),
    plan: await graph.document('plan', handle.plan_id),
    ...(confirm && { confirm: await graph.document('confirm', confirm.id) }),
    trace: await graph.document('trace', handle.trace_id),
    ...(collab && { collab: await graph.document('collab', collab.collab_id as string) }),
  }
  Object.assign(ctx.coordination, documents)
  running.output = { ...running.output, ...documents }
}

/** A run that ended: what its steps gave, and whether its trace may be emitted. */
async function conclude(running: Running, handle: RunHandle): Promise<void> {
  const result = await handle.result()
  const standing = Object.entries(result.resources ?? {}).map(([resource, by]) => {
    return [resource, { ...by, output: result.outputs[by.step_id] ?? null }] as const
  })
  const resources = result.resources && { resources: Object.fromEntries(standing) }
  running.output = { ...running.output, steps: result.outputs, ...resources }
  tellMetadata(running, { status: result.status })
  const { context, plan, trace } = running.output as Documents
  const broken = running.profile
    .breaches({ context, plan, trace } as Documents)
    .filter(({ scope }) => scope === 'trace')
  refuseBreaches(broken)
  if (result.success) return
  const { code = 'cancelled', message = `the plan is ${result.status}` } = result.error ?? {}
  throw new FlowFailure(inCapitals(code), message)
}
