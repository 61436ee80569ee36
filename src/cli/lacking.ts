import type { ComposedRuntime } from '../compose.ts'
import { executorOf } from '../orchestrator/bind.ts'
import { systemClock } from '../protocol/clock.ts'
import { NotFound } from '../protocol/errors.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'

/** What this process would need to carry the rest of a plan out and does not have, in a sentence; `undefined` when it has all. */
export async function lacking(
  { layer }: ComposedRuntime,
  graph: ProjectGraph,
  plan: string,
): Promise<string | undefined> {
  for (const node of graph.state.nodesOf(plan)) {
    if (!isKind(node, 'binding')) continue
    const { step_id, action_type, params } = node.data
    const status = graph.get('step', step_id)?.data.status
    if (action_type === 'wait' || status === 'completed' || status === 'skipped') continue
    const ids = { action_id: systemClock.uuid(), idempotency_key: step_id }
    const action = { ...ids, action_type, params, executor_kind: executorOf(node.data, layer) }
    const lacks = await layer.check(action).then(
      () => undefined,
      (error: unknown) => (error instanceof NotFound ? error.message : undefined), // all else is the step's own to fail of
    )
    if (lacks !== undefined) return lacks
  }
  return undefined
}
