import { RevisionConflict } from '../protocol/errors.ts'
import type { Commit, CommitOptions } from './change.ts'
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
