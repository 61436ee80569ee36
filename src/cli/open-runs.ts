import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import type { Project } from '../psg/project.ts'
import type { Backend } from '../vsl/backend.ts'
import { type Wait, waitsOf } from './waits.ts'

/** A run that has not ended, whoever looks after it. */
export interface OpenRun {
  readonly graph: ProjectGraph
  readonly run: Node<'run'>
  readonly waits: readonly Wait[]
}

/** Every run that has not ended. Opens the contexts that have one, each for as long as it is looked at. */
export async function* openRuns(project: Project): AsyncIterable<OpenRun> {
  for (const [context, plans] of await openPlans(project.store)) {
    const graph = await project.context(context)
    await graph.refresh()
    for (const plan of plans) {
      const id = graph.state.plan(plan)?.activeRun
      const run = id === undefined ? undefined : graph.get('run', id)
      if (run && run.data.phase !== 'ended') yield { graph, run, waits: waitsOf(graph, plan) }
    }
    project.forget(context)
  }
}

const AT_ONCE = 500

/** Plans that have not ended, by context: found by their keys, so that contexts in which all has ended cost next to nothing. */
async function openPlans(store: Backend): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, string[]>()
  const look = async (places: readonly Whereabouts[]) => {
    const there = await store.getMany(places.map(({ graph, group }) => INDEX.open(graph, group)))
    for (const { graph, group } of places)
      if (there.has(INDEX.open(graph, group))) found.set(graph, [...(found.get(graph) ?? []), group])
  }
  const places: Whereabouts[] = []
  for await (const [, where] of store.scan('id/plan/')) {
    places.push(where as Whereabouts)
    if (places.length === AT_ONCE) await look(places.splice(0))
  }
  if (places.length > 0) await look(places)
  return found
}
