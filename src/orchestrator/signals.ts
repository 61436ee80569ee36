import type { Node } from '../psg/change.ts'
import { isKind } from '../psg/node.ts'
import type { LiveRun } from './live.ts'
import { append } from './session.ts'

/** What came from outside for a run and nobody has taken, by name, oldest first. */
export function openSignals({ graph, plan }: LiveRun): Map<string, Node<'signal'>[]> {
  const open = new Map<string, Node<'signal'>[]>()
  for (const node of graph.state.nodesOf(plan))
    if (isKind(node, 'signal') && !node.data.taken) append(open, node.data.name, node)
  return open
}
