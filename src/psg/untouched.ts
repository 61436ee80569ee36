import { RevisionConflict } from '../protocol/errors.ts'
import type { Change, Changes } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { entriesOf } from './history.ts'
import { nodeKey, placeOf } from './node.ts'
import type { GraphState } from './state.ts'
import type { Names } from './working-copy.ts'

/**
 * What was planned at a revision may be committed as long as nobody has changed these nodes since: the check throws RevisionConflict once somebody has.
 * What others write elsewhere in the graph is no reason to plan anew, or nothing could be planned beside a run that never rests.
 */
export async function untouched(graph: ProjectGraph, since: number, names: Names): Promise<() => void> {
  const held = (state: GraphState) => names.flatMap(([kind, id]) => [state.get(kind, id), state.tombstone(kind, id)])
  const { revision, nodes } = await graph.reading(names, (state) => ({ revision: graph.revision, nodes: held(state) }))
  const keys = new Set(names.map((name) => nodeKey(...name)))
  let isTouched = false
  for await (const { body } of entriesOf(graph, since, revision))
    for (const { key } of body.changes) {
      const { kind, id } = placeOf(key)
      if (keys.has(nodeKey(kind, id))) isTouched = true
    }
  return () => {
    if (isTouched || held(graph.state).some((node, i) => node !== nodes[i]))
      throw new RevisionConflict(graph.id, since, graph.revision)
  }
}

/** Changes that are decided, for a commit that is to go through only if a check within it does not throw. */
export const onceChecked = (check: () => void, changes: Changes) => (): Changes => {
  check()
  return changes
}

/** The nodes that changes are about. */
export const changedBy = (changes: readonly Change[]): Names =>
  changes.map((change) => ('node' in change ? [change.node, change.id] : ['step', change.from]))
