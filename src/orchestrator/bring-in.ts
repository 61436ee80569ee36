import type { Clock } from '../protocol/clock.ts'
import { InvalidInput, NotFound, RuleViolation } from '../protocol/errors.ts'
import type { Change, CommitOptions, Parent } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { insist } from '../psg/insist.ts'
import { nodeKey } from '../psg/node.ts'
import type { Project } from '../psg/project.ts'
import { onceChecked } from '../psg/untouched.ts'
import { asksForRoles, type Resolver } from './bind.ts'
import { type Draft, draftIn, unchangedDraft } from './draft.ts'
import type { Knowing } from './lacking.ts'
import { openSession, refuseIfTaken } from './open-session.ts'
import type { Placed } from './requests.ts'
import type { Inheritance } from './rerun.ts'
import { type Flow, type Submission, submission } from './submit.ts'

export interface BringingIn {
  readonly project: Project
  readonly clock: Clock
  readonly resolve?: Resolver | undefined
  readonly knowing?: Knowing | undefined
  readonly parent?: Parent | undefined
  readonly switched?: ReadonlySet<string> | undefined
  /** Of a run that goes on from another. */
  readonly inherits?: Inheritance | undefined
}

/** Brings a flow that was checked into the graph of its context; a plan that lies there as a draft is taken as it stands. Nobody runs it yet. */
export async function bringIn(flow: Flow, parts: BringingIn): Promise<Placed> {
  const there = typeof flow.context === 'string' ? await parts.project.context(flow.context) : undefined
  try {
    return await submitted(flow, there, parts)
  } catch (error) {
    // Looked for only now: hardly any plan is there before it is submitted.
    const isTheirs = error instanceof RuleViolation || error instanceof InvalidInput
    const draft = there && isTheirs ? await unchangedDraft(there, flow.plan) : undefined
    if (!draft) throw orThereAlready(error, flow)
    return submitted(flow, there, parts, draft)
  }
}

/** Who submits a run again is told that alone, and not what the graph has against each part of it. */
function orThereAlready(error: unknown, { chosen }: Flow): unknown {
  if (!(error instanceof RuleViolation) || chosen?.run === undefined) return error
  const name = nodeKey('run', chosen.run)
  const again = error.violations.find(({ rule, node }) => rule === 'id.unique' && node === name)
  if (!again) return error
  return new RuleViolation(error.graph, [{ ...again, message: `${again.message}; ask for it by its id` }])
}

async function submitted(
  flow: Flow,
  there: ProjectGraph | undefined,
  { project, clock, resolve, knowing, parent, switched, inherits }: BringingIn,
  draft?: Draft,
): Promise<Placed> {
  const session = await sessionFor(flow, there, { project, inherits, switched })
  if (asksForRoles(flow.plan.steps, flow.bindings)) await project.graph.refresh() // the newest roles
  const { context_id, plan_id, run_id, commits } = submission(flow, clock, {
    resolve: draft ? draft.resolving(resolve) : resolve,
    role: project.role,
    context: there?.get('context', there.id)?.data,
    session,
    knowing,
    parent,
    inherits,
    switched,
  })
  const graph = there ?? (await project.beginning(context_id))
  const sure = () => {
    inherits?.sure()
    if (session) refuseIfTaken(graph, session.settled.collab_id, plan_id)
  }
  const by = { actor: 'submitter', run: run_id }
  if (commits.length > 1) await submitParts(graph, plan_id, commits, { ...by, ...inherits?.by }, sure)
  else
    for (const { changes, ...told } of commits) {
      const left = draft ? draft.left(changes) : changes
      await insist(graph, session || inherits ? onceChecked(sure, left) : left, { ...by, ...told, ...inherits?.by })
    }
  return { graph, run: graph.get('run', run_id)! }
}

/**
 * A plan that is too large for one commit: judged whole before the first, and taken up where a crash has left it, or where others are at it who submit
 * the same: then what is left is worked out anew.
 */
async function submitParts(
  graph: ProjectGraph,
  plan: string,
  commits: Submission['commits'],
  by: Omit<CommitOptions, 'reason'>,
  sure: () => void,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { revision } = graph
    try {
      return await submitLeft(graph, commits, by, sure, await draftIn(graph, plan))
    } catch (error) {
      const isOvertaken = error instanceof RuleViolation && graph.revision > revision
      if (!isOvertaken || attempt > commits.length || !(await draftIn(graph, plan))) throw error
    }
  }
}

async function submitLeft(
  graph: ProjectGraph,
  commits: Submission['commits'],
  by: Omit<CommitOptions, 'reason'>,
  sure: () => void,
  draft: Draft | undefined,
): Promise<void> {
  const leftOf = (changes: readonly Change[]) => draft?.left(changes) ?? changes
  const whole = () => {
    sure()
    return commits.flatMap(({ changes }) => leftOf(changes))
  }
  await graph.check(whole, { reason: 'a plan is to be submitted', ...by })
  for (const { changes, events, reason } of commits) {
    const left = leftOf(changes)
    if (left.length > 0) await insist(graph, onceChecked(sure, left), { reason, ...by, events })
  }
}

/** The session that a flow asks for, as its Collab stands in the graph or is about to come into it. */
async function sessionFor(
  { plan, options }: Flow,
  graph: ProjectGraph | undefined,
  { project, inherits, switched }: Pick<BringingIn, 'project' | 'inherits' | 'switched'>,
) {
  if (!options?.session) return undefined
  const { collab_id } = options.session
  const own = inherits?.collab
  if (!own && !(await graph?.find('collab', String(collab_id)))) throw new NotFound('collab', String(collab_id))
  const collab = own ?? (await graph!.document('collab', collab_id))
  await project.graph.refresh() // the newest roles
  return { collab, settled: openSession(options.session, collab, plan, project.role, switched) }
}
