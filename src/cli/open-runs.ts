import { allWaitsOf, type Wait } from '../orchestrator/waits.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { openPlans } from '../psg/open-plans.ts'
import type { Project } from '../psg/project.ts'
import { runUnderWay } from '../psg/view.ts'
import type { Backend } from '../vsl/backend.ts'

/** A run that has not ended, whoever looks after it. */
export interface OpenRun {
  readonly graph: ProjectGraph
  readonly run: Node<'run'>
  readonly waits: readonly Wait[]
}

/** Every run that has not ended. Opens the contexts that have one, each for as long as it is looked at, or what waits for a run in it. */
export async function* openRuns(project: Project): AsyncIterable<OpenRun> {
  for (const [context, plans] of await plansByContext(project.store)) {
    const graph = await project.context(context)
    await graph.refresh()
    const opened = new Set([context])
    for (const plan of plans) {
      const run = runUnderWay(graph.state, plan)
      if (!run) continue
      const waits = await allWaitsOf(project, graph, plan)
      for (const { child } of waits) if (child) opened.add(child.context_id)
      yield { graph, run, waits }
    }
    for (const one of opened) project.forget(one)
  }
}

async function plansByContext(store: Backend): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, string[]>()
  for await (const { graph, group } of openPlans(store)) found.set(graph, [...(found.get(graph) ?? []), group])
  return found
}
