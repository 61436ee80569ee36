import type { Attempt, AttemptEnd } from '../ael/layer.ts'
import type { Done } from '../drift/compensate.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Acted, ActionRecord } from '../psg/change.ts'
import { ofKind } from '../psg/node.ts'
import { sameJson } from '../psg/plain.ts'
import type { GraphState } from '../psg/state.ts'
import type { Flight, Led, LiveRun, WayBack } from './live.ts'
import { adaptersWayBack } from './way-back.ts'

/** Keeps what an action has carried out on its way: it took effect, whatever becomes of the action itself. */
export function keepActed(run: LiveRun, { action }: Flight, attempt: Attempt, end: AttemptEnd): void {
  const { execution_id, parent_execution_id: by } = attempt
  const back = end.status === 'completed' ? adaptersWayBack(run.layer, attempt.action, end.result) : undefined
  const acted = back && actedAs(attempt, back, run.ends)
  const before = ledTo(run, action.action_id)
  const after: Led[] = []
  let isKnown = false
  for (const led of before) {
    const isBelow = led.by === execution_id
    if (isBelow && isObject(back?.inverse)) continue // what takes this one back takes back what it led to
    const isSame = acted !== undefined && isSameWork(led.acted, acted)
    isKnown ||= isSame
    after.push(isBelow || isSame ? { ...led, by } : led)
  }
  if (acted && !isKnown) after.push({ by, acted })
  if (before.length + after.length > 0) run.acted.set(action.action_id, after)
}

/** Once more under the same key it has done nothing new, unless something else takes it back. */
const isSameWork = (one: Acted, other: Acted): boolean =>
  one.idempotency_key === other.idempotency_key && sameJson(workOf(one), workOf(other))
const workOf = ({ action_type, inverse, no_inverse }: Acted) => ({ action_type, inverse, no_inverse }) as JsonObject

/** What the graph does not say yet, by action. What it says is forgotten here. */
export function* actedUntold({ acted, graph }: LiveRun): Iterable<readonly [string, readonly Acted[]]> {
  for (const [id, led] of acted) {
    const list = led.map((one) => one.acted)
    if (sameJson(list, graph.get('action', id)?.data.acted ?? [])) acted.delete(id)
    else yield [id, list]
  }
}

const ledTo = ({ acted, graph }: LiveRun, id: string): readonly Led[] =>
  acted.get(id) ?? (graph.get('action', id)?.data.acted ?? []).map((acted) => ({ by: undefined, acted }))

const keyOf = ({ action }: Attempt): string => action.idempotency_key || action.action_id

function actedAs(attempt: Attempt, { inverse, no_inverse }: WayBack, at: number): Acted {
  const { action_id, action_type } = attempt.action
  const reason = no_inverse ?? (inverse === 'irreversible' ? `${attempt.label} cannot be undone` : undefined)
  return {
    action_id,
    action_type,
    idempotency_key: keyOf(attempt),
    execution_id: attempt.execution_id,
    inverse: inverse!,
    ...(reason !== undefined && { no_inverse: reason }),
    at,
  }
}

/** An action, and what it carried out on its way that is taken back by itself, each with where its end stands among those of the run. */
export function allDone(action: ActionRecord): readonly Done[] {
  const { acted = [], status, inverse, step_id } = action
  const own = { action, ended: endOf(action) }
  if (status === 'completed' && isObject(inverse)) return [own]
  const led = acted.map(({ at, ...one }, i) => ({
    // Known by its execution: an action may be carried out more than once, and by several steps.
    action: { ...one, action_id: one.execution_id, step_id, status: 'completed' as const, attempts: 1, failures: 0 },
    ended: at - 1 + (i + 1) / (acted.length + 1), // after the end before it, and in their own order
  }))
  return [own, ...led]
}

export const endOf = ({ ended }: ActionRecord): number => ended?.at(-1)?.at ?? 0

/** What was done for a step by this id, if only on the way of another action. */
export function workNamed(state: GraphState, step: string, id: string): ActionRecord | undefined {
  for (const { data } of ofKind(state.referrers('step', step, 'EXECUTES'), 'action'))
    for (const { action } of allDone(data)) if (action.action_id === id) return action
  return undefined
}
