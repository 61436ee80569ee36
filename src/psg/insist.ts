import { RevisionConflict } from '../protocol/errors.ts'
import type { Changes, Commit, CommitOptions } from './change.ts'
import type { ProjectGraph, Wanted } from './graph.ts'

/** A commit is five attempts; beside a process that writes without a rest, three of four of them come too late. */
const MOST_COMMITS = 20

/**
 * Commits what somebody outside of a run wants: its owner, in another process, may commit so often that a few attempts are all overtaken, and whoever
 * wants to cancel just that run would be told to try again. Throws what `commit` does.
 */
export async function insist(graph: ProjectGraph, changes: Wanted, options: CommitOptions): Promise<Commit> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await graph.commit(changes, options)
    } catch (error) {
      if (!(error instanceof RevisionConflict) || attempt === MOST_COMMITS) throw error
    }
  }
}

/** The same of what is decided when its turn has come; false when nothing is left to be done or told by then. */
export async function commitStill(
  graph: ProjectGraph,
  changes: () => Changes,
  options: CommitOptions,
): Promise<boolean> {
  const still = () => {
    const left = changes()
    if (left.length === 0 && !options.events?.length) throw NOTHING_LEFT
    return left
  }
  try {
    await insist(graph, still, options)
    return true
  } catch (error) {
    if (error !== NOTHING_LEFT) throw error
    return false
  }
}
const NOTHING_LEFT = new Error('there is nothing left to commit')
