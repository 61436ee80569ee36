import { isoNow } from '../protocol/clock.ts'
import { startPlan } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import { ends } from './ending.ts'
import { expiryOf } from './gate.ts'
import { heldUpBy } from './held-up.ts'
import type { Decided, Ending, LiveRun } from './live.ts'
import { fits } from './modes/mode.ts'
import { saBeginning } from './profiles/sa.ts'
import { readyStep } from './session.ts'
import { sa } from './steps.ts'
import { endTimer, fired, openTimers } from './timers.ts'
import { sessionStarts } from './turns.ts'

/** Lets a plan start that people have approved, or ends its run where it cannot start any more. False while something holds it up. */
export function startApproved(run: LiveRun, decided: Decided): boolean {
  const expired = expiryOf(run.graph, run.plan)
  const unbound = unboundIn(run)
  if (expired !== undefined) ends(run, tooLate(expired))
  else if (unbound !== undefined) ends(run, notBound(unbound))
  else if (heldUpBy(run.graph, run.options)) return false
  else starts(run, decided)
  return true
}

/** The approval is used up by it. */
function starts(run: LiveRun, decided: Decided): void {
  const { graph } = run
  const record = graph.get('run', run.id)!.data
  const started_at = isoNow(graph.clock)
  decided.changes.push(
    ...startPlan(graph, run.plan, run.id),
    { kind: 'node_update', node: 'trace', id: run.trace, set: { status: 'running', started_at } },
    { kind: 'node_update', node: 'run', id: run.id, set: { started_at } },
  )
  for (const { id, data } of openTimers(graph, run.plan)) if (data.purpose === 'expiry') decided.changes.push(fired(id))
  if (run.options.budget?.wall_ms !== undefined)
    decided.changes.push(...endTimer(graph.clock, { ...record, started_at }))
  decided.reason = 'the plan was approved and starts'
  if (run.session) {
    const { options } = run.session
    sessionStarts(graph.get('collab', options.collab_id)!.data, options, run.plan, decided)
  }
  if (!sa(run)) return
  const context = graph.get('context', graph.id)!.data
  const plan = graph.get('plan', run.plan)!.data
  decided.events.push(...saBeginning(context, plan, run.bindings.size))
}

/** A step that came since the plan was submitted, and that nobody says how to execute or nobody of the session may do. */
function unboundIn({ graph, plan, bindings, session }: LiveRun): string | undefined {
  const isAnybodys = (step: string) => session?.options.seats.some((seat) => fits(seat, readyStep(graph, step))) ?? true
  for (const { id } of ofKind(graph.state.nodesOf(plan), 'step')) if (!(bindings.has(id) && isAnybodys(id))) return id
  return undefined
}
const notBound = (step: string): Ending => ({
  status: 'cancelled',
  reason: 'error',
  error: {
    code: 'step_unbound',
    message: `nobody can do step ${step}: a plan that was changed is put up again by propose of the runtime, which looks after that`,
  },
})

const tooLate = (expired: string): Ending => ({
  status: 'cancelled',
  reason: 'timeout',
  error: { code: 'approval_expired', message: `the approval was not used before it expired at ${expired}` },
})
