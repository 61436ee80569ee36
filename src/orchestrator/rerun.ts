import type { Clock } from '../protocol/clock.ts'
import { InvalidInput, Refused } from '../protocol/errors.ts'
import { type Fields, refuseUnlessFit, text } from '../protocol/fields.ts'
import { uuidOf } from '../protocol/json.ts'
import type { Collab } from '../protocol/types.ts'
import type { ActionRecord, CommitOptions, Node, NodeAdd } from '../psg/change.ts'
import { confirmOf, gateOf, timeToAnswer } from '../psg/confirm.ts'
import { copyOf } from '../psg/fork.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import { allDone } from './acted.ts'
import { carriedOver } from './carried-over.ts'
import type { RunOptions } from './live.ts'
import { worksOf } from './outcome.ts'
import { rerunIds } from './rerun-ids.ts'
import { sessionAnew } from './rerun-session.ts'
import { placeOfRun, waysBack } from './rollback-trace.ts'
import type { Session } from './session.ts'
import type { ApprovalAsked, Flow } from './submit.ts'
import { checkedFlow, RUN_OPTIONS } from './submit-check.ts'
import { isTakenBack } from './undo.ts'

/** How a run goes on that has failed. */
export interface RerunOptions {
  /** Each of these takes the place of what the first was asked to be, whole; the others stay. */
  readonly options?: Omit<RunOptions, 'session'>
  readonly actor?: string
  readonly reason?: string
}

/** What a run has from the one that it goes on from. */
export interface Inheritance {
  readonly run_id: string
  /** That of its session, if it is one of several agents; it comes into the graph with the run. */
  readonly collab: Collab | undefined
  /** What that one has done, as actions of this one. */
  readonly actions: readonly NodeAdd<'action'>[]
  readonly by: Pick<CommitOptions, 'actor' | 'reason' | 'reads'>
  /** Looked at within the commit. Throws when somebody has begun to take the first back since. */
  readonly sure: () => void
}

/** Throws InvalidInput for what is none. */
export const checkRerun = (given: RerunOptions): void => refuseUnlessFit('rerun', given, RERUN)
const { session: _, ...OPTIONS } = RUN_OPTIONS
const RERUN: Fields = { options: OPTIONS, actor: text, reason: text }

/**
 * Pure: the flow in which a run goes on that has failed or was cancelled, and what it need not do again. Its plan must be loaded; the Collab is that of
 * its session. Throws Refused, InvalidInput.
 */
export function rerunOf(
  graph: ProjectGraph,
  run: Node<'run'>,
  given: RerunOptions,
  clock: Clock,
  collab?: Collab,
): { readonly flow: Flow; readonly inherits: Inheritance } {
  const status = refuseUnlessFailed(run)
  const ids = rerunIds(run.id)
  const idOf = (part: string) => uuidOf(`${part} in the rerun of ${run.id}`)
  const { plan, bindings, steps } = copyOf(graph.state, run.data.plan_id, ids.plan, idOf)
  const options = optionsOf(run, given, clock)
  const { session } = options as { readonly session?: Session }
  const anew = session && collab && sessionAnew(session, collab, { collab_id: idOf(collab.collab_id), steps, clock })
  const flow = checkedFlow({
    context: graph.id,
    plan,
    bindings: {
      steps: Object.fromEntries(bindings.map(({ binding_id: _, step_id, ...binding }) => [step_id, binding])),
    },
    approval: approvalOf(graph, run.data.plan_id),
    options: { ...options, ...(anew && { session: anew.asked }) },
    chosen: { run: ids.run, trace: idOf(run.data.trace_id), confirm: idOf('its Confirm') },
  })
  const actions = carriedOver(graph, worksLeft(graph, run), { run_id: run.id, steps, idOf, clock })
  const { actor = 'submitter', reason = `run ${run.id} goes on: it ${HOW[status]}` } = given
  return {
    flow,
    inherits: {
      run_id: run.id,
      collab: anew?.collab,
      actions,
      by: { actor, reason, reads: placeOfRun(run) },
      sure: stillSo(graph, run, actions),
    },
  }
}

/** The same, with what it needs read first. Throws NotFound, too. */
export async function rerunIn(
  graph: ProjectGraph,
  run: Node<'run'>,
  given: RerunOptions,
  clock: Clock,
): Promise<ReturnType<typeof rerunOf>> {
  const { session } = run.data.options as RunOptions
  const collab = session && (await graph.document('collab', session.collab_id))
  return graph.reading([['plan', run.group]], () => rerunOf(graph, run, given, clock, collab))
}

const HOW = { failed: 'had failed', cancelled: 'was cancelled' } as const

function refuseUnlessFailed({ id, data }: Node<'run'>): keyof typeof HOW {
  if (data.phase !== 'ended') throw new Refused(`run ${id} goes on`, 'wait until it has ended, or cancel it')
  const { status } = data.result as { readonly status: 'completed' | 'failed' | 'cancelled' }
  if (status === 'completed')
    throw new Refused(
      `run ${id} is completed, and has nothing to go on with`,
      'submit its flow anew to have it all again',
    )
  return status
}

function optionsOf({ data }: Node<'run'>, { options = {} }: RerunOptions, clock: Clock): RunOptions {
  const whole = { ...(data.options as RunOptions), ...options }
  if (whole.deadline !== undefined && Date.parse(whole.deadline) <= clock.now()) {
    const message = `has passed, so that it would be ended at once: give another one`
    throw new InvalidInput('rerun', [{ path: 'options.deadline', rule: 'passed', message, found: whole.deadline }])
  }
  return whole
}

/** Who was asked is asked again, for as long: what they said was about another plan. */
function approvalOf(graph: ProjectGraph, plan: string): ApprovalAsked {
  const confirm = confirmOf(graph, plan)
  const gate = confirm && gateOf(graph, confirm.id)?.data
  const expires_ms = confirm && timeToAnswer(graph, confirm)
  if (!gate || expires_ms === undefined) return 'auto' // people are asked with an end to it
  const { requested_by_role, reason } = confirm.data
  return {
    needed: gate.needed,
    ...(gate.roles && { roles: gate.roles }),
    expires_ms,
    requested_by_role,
    ...(reason !== undefined && { reason }),
  }
}

/** What a run has done that was not taken back, in the order in which it was done. Of one that was rolled back, all is as it was before it. */
function worksLeft(graph: ProjectGraph, run: Node<'run'>): readonly ActionRecord[] {
  const last = waysBack(graph, run).at(-1)?.data.status
  if (last === 'completed') return []
  if (last !== undefined)
    throw new Refused(
      `run ${run.id} was taken back only in part`,
      'roll it back until that is done, or submit its plan anew',
    )
  return worksOf(graph.state, run.data.plan_id)
    .filter((work) => allDone(work).every(({ action }) => !isTakenBack(graph.state, work.step_id, action.action_id)))
    .reverse()
}

function stillSo(graph: ProjectGraph, run: Node<'run'>, actions: readonly NodeAdd<'action'>[]): () => void {
  const seen = waysBack(graph, run).length
  const known = new Set(actions.map(({ id }) => id))
  return () => {
    if (waysBack(graph, run).length !== seen)
      throw new Refused(`run ${run.id} is being taken back`, 'wait until that is done')
    for (const { id } of ofKind(graph.state.nodesOf(rerunIds(run.id).plan), 'action'))
      if (!known.has(id))
        throw new Refused(
          `a rerun of ${run.id} was cut off before it began, and what it had carried over was taken back since`,
          'submit its plan anew',
        )
  }
}
