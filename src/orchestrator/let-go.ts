import { allOf } from '../protocol/each.ts'
import { CONTEXTS_AT_ONCE } from '../psg/open-graphs.ts'
import { childrenOf } from './children-under-way.ts'
import type { Decided, LiveRun } from './live.ts'

// Children of which their parent has no more use are cancelled between two commits: the one that ends their action, or says that its run is ending, and
// the one that ends the run. So whoever takes over in between finds them and cancels them again.

/** Has a run that would end with this tick children that must be cancelled first? Those of a completed action live on. */
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
