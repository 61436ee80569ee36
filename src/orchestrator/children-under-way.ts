import { isObject } from '../protocol/json.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import { byPlace, ofKind } from '../psg/node.ts'
import type { Backend } from '../vsl/backend.ts'

/** A child that has not ended, and where it is. */
export interface ChildUnderWay extends Whereabouts {
  readonly run_id: string
}

/** The runs that an action has submitted, or was about to, in that order. */
export const childrenOf = ({ state }: ProjectGraph, { id, group }: Node<'action'>): readonly string[] =>
  [...(state.plan(group)?.children.get(id)?.values() ?? [])].sort(byPlace).map(({ data }) => data.run_id)

/** All that the actions of a plan have submitted, in that order. */
export function childrenIn({ state }: ProjectGraph, plan: string): readonly string[] {
  const submitted = [...(state.plan(plan)?.children.values() ?? [])].flatMap((children) => [...children.values()])
  return [...new Set(submitted.sort(byPlace).map(({ data }) => data.run_id))] // a turn that is handed out again finds those of the first
}

/** Those that go with the actions which have submitted them: what is completed has left its own. */
export const childrenWaitedFor = (graph: ProjectGraph, plan: string): readonly string[] =>
  [...ofKind(graph.state.nodesOf(plan), 'action')].flatMap((action) =>
    action.data.status === 'completed' ? [] : childrenOf(graph, action),
  )

/** Those that a way back leaves alone: an action that takes their parent's back takes them back too. */
export const childrenLeft = (graph: ProjectGraph, plan: string): readonly string[] =>
  [...ofKind(graph.state.nodesOf(plan), 'action')].flatMap((action) =>
    isObject(action.data.inverse) ? [] : childrenOf(graph, action),
  )

/** Which of these runs have not ended, and which are not there: they are about to be, or were refused. Costs two questions, however many they are. */
export async function childrenUnderWay(
  store: Backend,
  runs: readonly string[],
): Promise<{ readonly underWay: ReadonlyMap<string, ChildUnderWay>; readonly missing: ReadonlySet<string> }> {
  const underWay = new Map<string, ChildUnderWay>()
  const missing = new Set<string>()
  if (runs.length === 0) return { underWay, missing }
  const places = await store.getMany(runs.map((run) => INDEX.id('run', run)))
  const found: ChildUnderWay[] = []
  for (const run_id of runs) {
    const where = places.get(INDEX.id('run', run_id)) as Whereabouts | undefined
    if (where) found.push({ ...where, run_id })
    else missing.add(run_id)
  }
  const open = await store.getMany(found.flatMap(({ group }) => [INDEX.running(group), INDEX.resting(group)]))
  for (const child of found)
    if (open.has(INDEX.running(child.group)) || open.has(INDEX.resting(child.group))) underWay.set(child.run_id, child)
  return { underWay, missing }
}
