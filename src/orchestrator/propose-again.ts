import { isoMicros } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { breachProblems } from '../protocol/invariants.ts'
import type { Plan } from '../protocol/types.ts'
import type { Change, NodeAdd } from '../psg/change.ts'
import { confirmOf, timeToAnswer } from '../psg/confirm.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { proposePlan } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import { runUnderWay } from '../psg/view.ts'
import { bindSteps, type Resolver } from './bind.ts'
import type { RunOptions } from './live.ts'
import { seatProblems } from './open-session.ts'
import { saBreaches } from './profiles/sa.ts'
import type { Session } from './session.ts'
import { sa } from './steps.ts'
import { fired, newTimer, openTimers } from './timers.ts'

/** How the steps are executed that came since the plan was submitted. Throws InvalidInput for one that nobody can execute, or nobody of its session. */
export function missingBindings(graph: ProjectGraph, plan: string, resolve: Resolver | undefined): readonly Change[] {
  const run = runUnderWay(graph.state, plan)
  if (!run) return []
  const parts = [...graph.state.nodesOf(plan)]
  const steps = [...ofKind(parts, 'step')].map(({ data }) => data)
  const problems = profileProblems(run.data.options as RunOptions, steps)
  if (problems.length > 0) throw new InvalidInput('flow', problems)
  const bound = Object.fromEntries([...ofKind(parts, 'binding')].map(({ data }) => [data.step_id, data]))
  return bindSteps(steps, { steps: bound }, resolve, graph.clock.uuid)
    .filter(({ step_id }) => !Object.hasOwn(bound, step_id))
    .map((data) => ({ kind: 'node_add', node: 'binding', id: data.binding_id, data }))
}

/** What a profile would have refused, had the plan been submitted with these steps. */
function profileProblems(options: RunOptions, steps: Plan['steps']): readonly Problem[] {
  const { session } = options
  if (session) return seatProblems((session as Session).seats, steps)
  const breaches = sa({ options }) ? saBreaches({ plan: { steps } }) : []
  return breachProblems(breaches.filter(({ path }) => path.startsWith('plan.steps')))
}

export interface ProposeOptions {
  readonly requested_by_role?: string
  readonly reason?: string
  /** As long as the first question when absent. */
  readonly expires_ms?: number
}

/** The same people are asked again, and as many of them, for as long. */
export function proposedAgain(
  graph: ProjectGraph,
  plan: string,
  { expires_ms, ...given }: ProposeOptions,
): readonly Change[] {
  const asked = confirmOf(graph, plan)
  const wait = expires_ms ?? (asked && timeToAnswer(graph, asked))
  const due = wait === undefined ? undefined : graph.clock.now() + wait
  const changes = proposePlan(graph, plan, {
    requested_by_role: 'runtime',
    ...(due !== undefined && { expires_at: isoMicros(due * 1000) }),
    ...given,
  })
  if (due === undefined) return changes
  const renewed = changes.find((change) => change.kind === 'node_add' && change.node === 'gate') as NodeAdd<'gate'>
  const target = renewed.data.confirm_id
  const older = openTimers(graph, plan).filter(({ data }) => data.purpose === 'expiry') // of a question that was answered
  const timer = newTimer(graph.clock.uuid(), plan, { due, purpose: 'expiry', target })
  return [...changes, ...older.map(({ id }) => fired(id)), timer]
}
