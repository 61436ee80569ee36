import { append } from '../protocol/append.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import type { LiveRun } from './live.ts'

/** What came from outside for a run and nobody has taken, by name, oldest first. */
export function openSignals({ graph, plan }: LiveRun): Map<string, Node<'signal'>[]> {
  const open = new Map<string, Node<'signal'>[]>()
  for (const node of graph.state.plan(plan)?.signals.values() ?? []) append(open, node.data.name, node)
  return open
}

/** Does something that is under way wait for a signal of this name? What begins to wait for it later finds it then. */
export function isAwaited({ state }: ProjectGraph, plan: string, name: string): boolean {
  for (const node of state.nodesOf(plan)) {
    if (!isKind(node, 'action') || node.data.status !== 'waiting' || node.data.action_type !== 'wait') continue
    const { turn, step_id } = node.data
    if (turn && turn.purpose !== 'work') return true // its session says for what
    for (const bound of state.referrers('step', step_id, 'BINDS'))
      if (isKind(bound, 'binding') && bound.data.params.signal === name) return true
  }
  return false
}
