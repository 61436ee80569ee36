import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import { FlowFailure } from './flow.ts'
import { comesBack, heldUpBy } from './held-up.ts'
import { isToRest } from './requests.ts'
import type { RunHandle } from './run.ts'
import { allWaitsOf } from './waits.ts'

/** Why nothing more happens until somebody comes. */
export async function waitsFor(
  project: Project,
  graph: ProjectGraph,
  { run_id, plan_id, lacking }: RunHandle,
): Promise<FlowFailure> {
  if (lacking)
    return new FlowFailure(
      'ACTION_NOT_REGISTERED',
      `run ${run_id} waits with step ${lacking.step_id} for a call, or a process, that has ${lacking.what} ${lacking.name}`,
    )
  const waits = await allWaitsOf(project, graph, plan_id)
  const confirms = waits.flatMap(({ decision }) => decision?.confirm_id ?? [])
  if (confirms.length > 0)
    return new FlowFailure('APPROVAL_PENDING', `plan ${plan_id} waits for a decision on ${confirms.join(', ')}`, {
      confirms,
    })
  if (graph.get('plan', plan_id)?.data.status === 'draft')
    return new FlowFailure('APPROVAL_REJECTED', `plan ${plan_id} was rejected: propose it again, or cancel it`)
  const run = graph.get('run', run_id)?.data
  if (run && isToRest(run)) return new FlowFailure('PAUSED', `run ${run_id} is paused`)
  const held = heldUpBy(graph, run?.options ?? {})
  if (held) {
    const why = `${held.by} ${held.id}, now ${held.status},`
    const says = comesBack(held) ? `goes on when ${why} is active` : `goes on no more: ${why} stays so; cancel the run`
    return new FlowFailure('SUSPENDED', `run ${run_id} ${says}`)
  }
  const paused = waits.find(({ isPaused }) => isPaused)?.child
  if (paused) return new FlowFailure('PAUSED', `run ${paused.run_id}, a child of run ${run_id}, is paused`)
  return new FlowFailure('SIGNAL_PENDING', `run ${run_id} waits for a signal`)
}
