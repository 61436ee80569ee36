import type { ComposedRuntime } from '../compose.ts'
import { childrenIn } from '../orchestrator/children-under-way.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { standingOf } from '../orchestrator/standing.ts'
import { allWaitsOf, type Wait } from '../orchestrator/waits.ts'
import type { Node, Run } from '../psg/change.ts'
import { type EndedRun, originOf } from '../psg/ended-runs.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { type Project, upToDate } from '../psg/project.ts'

/** A run that has not ended, in the same words over HTTP and on the command line. */
export const toldOpen = (graph: ProjectGraph, run: Run) => ({
  run_id: run.run_id,
  plan_id: run.plan_id,
  context_id: graph.id,
  trace_id: run.trace_id,
  phase: run.phase,
  title: graph.get('plan', run.plan_id)!.data.title,
  ...originOf(run),
  ...(run.requested !== undefined && { requested: run.requested }), // and no worker has heard it yet
})

/** What it waits for. */
export const toldWaits = (waits: readonly Wait[]) => ({ waits_for: waits.map(({ what }) => what) })

/** One that has, without its result, which may be large. */
export const toldEnded = (run: EndedRun) => ({ ...run, phase: 'ended' as const })

/** Any run, with what this process knows of it. */
export async function toldRun({ project }: ComposedRuntime, handle: RunHandle) {
  const { run_id, plan_id, context_id, trace_id, lacking, withoutPlace } = handle
  const graph = await project.context(context_id)
  const run = graph.get('run', run_id)
  if (run && run.data.phase !== 'ended') {
    const told = toldOpen(graph, run.data) // before anything is waited for: it may end meanwhile, and leave memory
    const waits = (await isStill(project, graph, run)) ? await allWaitsOf(project, graph, plan_id) : undefined
    return {
      ...told,
      ...(waits && toldWaits(waits)),
      ...(lacking && { lacking }),
      ...(withoutPlace.length > 0 && { without_place: withoutPlace }),
    }
  }
  const { title } = (await graph.require('plan', plan_id)).data
  const origin = originOf((await graph.require('run', run_id)).data)
  return { run_id, plan_id, context_id, trace_id, phase: 'ended', title, ...origin, result: await handle.result() }
}

/** The same, with the runs that it has submitted: there may be thousands, so lists leave them out. */
export async function toldWithChildren(runtime: ComposedRuntime, handle: RunHandle) {
  const { context_id, plan_id } = handle
  const told = await toldRun(runtime, handle)
  const children = childrenIn(await upToDate(runtime.project, { graph: context_id, group: plan_id }), plan_id)
  return { ...told, ...(children.length > 0 && { children }) }
}

/** Of a run that goes on, what it has in hand is another with every step, and looking for it would cost as much as the plan is large. */
const isStill = async (project: Project, graph: ProjectGraph, run: Node<'run'>): Promise<boolean> =>
  run.data.phase === 'waiting' || run.data.phase === 'paused' || (await standingOf({ project }, graph, run)) === 'still'
