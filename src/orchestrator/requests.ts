import { InvalidInput } from '../protocol/errors.ts'
import type { Change, CommitOptions, Node, Run } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { commitStill } from '../psg/insist.ts'
import { isUndecided, type Withdrawn, withdrawal, woken } from './waiting-runs.ts'

/** A run as it lies in its graph. */
export interface Placed {
  readonly graph: ProjectGraph
  readonly run: Node<'run'>
}

/** Stores what is asked of a run; false where nothing is left to ask for. One that has not started is withdrawn at once. */
export function storeRequest(
  { graph, run }: Placed,
  requested: 'cancel' | 'pause' | 'resume',
  by: Pick<CommitOptions, 'actor' | 'reason'>,
): Promise<boolean> {
  const wanted = (): readonly Change[] => {
    const { phase, requested: before } = graph.get('run', run.id)!.data
    if (phase === 'ended' || before === 'cancel') return [] // nothing outranks a cancel
    if (isUndecided(graph, run.id)) {
      if (requested === 'cancel') return withdrawal(graph, run, CANCELLED)
      throw refused(requested, 'started', `${run.id} has not started: its plan waits for approval`)
    }
    const asks: Change = { kind: 'node_update', node: 'run', id: run.id, set: { requested } }
    return [asks, ...(requested === 'pause' ? [] : woken(graph, run.id))] // one that is paused is its owner's to wake
  }
  return commitStill(graph, wanted, {
    ...by,
    run: run.id,
    ...(requested === 'cancel' && { termination: 'user_cancel' }),
  })
}

const CANCELLED: Withdrawn = {
  error: { code: 'cancelled', message: 'the run was cancelled before it started' },
  reason: 'user_cancel',
}

/** Does a run begin nothing more until somebody resumes it, by what was last asked of it? */
export const isToRest = ({ requested, phase, pausing }: Run): boolean =>
  requested === undefined ? phase === 'paused' || pausing === true : requested === 'pause'

/** Why a child is asked for what its parent was asked for. */
export const withParent = (parent: string, requested: 'pause' | 'resume'): string =>
  `run ${parent}, whose child it is, is to ${requested}`

export const refused = (wish: string, rule: string, message: string): InvalidInput =>
  new InvalidInput(wish, [{ path: 'run', rule, message }])
