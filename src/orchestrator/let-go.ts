import { allOf } from '../protocol/each.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { childrenOf } from './children-under-way.ts'
import type { Decided, LiveRun } from './live.ts'

/**
 * What becomes of children whose parent has no use for them any more. That an action has ended, or that its run is about to, is stored first, then its
 * children are cancelled, and only then may its run end: whoever takes over in between finds them and cancels them again.
 */

/** Would a run that ends with this tick leave children behind? Those of an action that is completed are left. */
export function leavesChildren({ parents, graph }: LiveRun, { said }: Decided): boolean {
  for (const id of parents)
    if ((said.get(id)?.set.status ?? graph.get('action', id)?.data.status) !== 'completed') return true
  return false
}

/** Cancels the children of every action that has ended in another way than by being completed, or will because its run ends. */
export async function letGo(run: LiveRun): Promise<void> {
  const { parents, graph, patiently, cancelChild, inbox, owner } = run
  for (const id of parents) {
    const action = graph.get('action', id)!
    const { status } = action.data
    if (status === 'running' || (status === 'waiting' && !run.ending)) continue
    if (status !== 'completed') {
      const cancelled = () => allOf(childrenOf(graph, action), CONTEXTS_AT_ONCE, (child) => cancelChild(child, id))
      await patiently(cancelled, owner.lost)
      inbox.push({ kind: 'look' }) // it may be over now
    }
    parents.delete(id)
  }
}
