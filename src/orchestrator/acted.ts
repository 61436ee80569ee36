import type { Attempt, AttemptEnd } from '../ael/layer.ts'
import type { Done } from '../drift/compensate.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { Acted, ActionRecord } from '../psg/change.ts'
import { ofKind } from '../psg/node.ts'
import { item, sameJson } from '../psg/plain.ts'
import type { GraphState } from '../psg/state.ts'
import type { Beside, Decided, Flight, Led, LiveRun, WayBack } from './live.ts'
import { setAction } from './set-action.ts'
import { adaptersWayBack } from './way-back.ts'

/** Keeps what an action has carried out on its way: it took effect, whatever becomes of the action itself. */
export function keepActed(run: LiveRun, { action }: Flight, attempt: Attempt, end: AttemptEnd): void {
  const { execution_id, parent_execution_id: by } = attempt
  const back = end.status === 'completed' ? adaptersWayBack(run.layer, attempt.action, end.result) : undefined
  const beside = besideOf(run, action.action_id)
  if (beside.leaders.delete(execution_id)) rises(beside, execution_id, isObject(back?.inverse) ? undefined : { by })
  if (back) {
    const acted = actedAs(attempt, back, run.ends)
    const known = beside.keys.has(acted.idempotency_key) && beside.led.find((one) => isSameWork(one.acted, acted))
    if (known) known.by = by
    else adds(run, beside, { by, acted })
    beside.leaders.add(by)
  }
  if (beside.led.length > 0) run.acted.set(action.action_id, beside)
}

/** What an action led to that has ended is what led to that one did, unless what takes it back takes this back too. */
function rises(beside: Beside, execution_id: string, to: Pick<Led, 'by'> | undefined): void {
  const below = beside.led.filter(({ by }) => by === execution_id)
  if (!to) {
    beside.led = beside.led.filter(({ by }) => by !== execution_id)
    for (const { acted } of below) beside.bytes -= bytesOf(acted)
    return
  }
  for (const one of below) one.by = to.by
  beside.leaders.add(to.by)
}

function adds(run: LiveRun, beside: Beside, { by, acted }: Led): void {
  const bytes = bytesOf(acted)
  let others = 0
  for (const other of run.acted.values()) if (other !== beside) others += other.bytes
  const isMore = beside.bytes + bytes > MOST_BYTES || others + beside.bytes + bytes > MOST_AT_ONCE
  const kept = isMore ? { ...acted, ...NOT_KEPT } : acted
  beside.led.push({ by, acted: item(kept) })
  beside.bytes += kept === acted ? bytes : bytesOf(kept)
  beside.keys.add(acted.idempotency_key)
}

/** All of it is kept with the action, twice in the entry of a commit that leaves some of it out. */
const MOST_BYTES = 12 * 1024 * 1024
/** Of all actions under way: one commit may have to tell it. */
const MOST_AT_ONCE = 18 * 1024 * 1024
const bytesOf = (acted: Acted): number => Buffer.byteLength(JSON.stringify(acted))
const NOT_KEPT: WayBack = {
  inverse: 'irreversible',
  no_inverse: `what takes it back is too large to be kept: all that one action carries out may have ${MOST_BYTES} bytes, and all at once ${MOST_AT_ONCE}`,
}

/** All that a long action carries out is more than one entry should hold, so it is told on the way. */
export const isMuch = ({ told }: LiveRun): boolean => told.length >= MOST_UNTOLD
const MOST_UNTOLD = 1_000

/** Once more under the same key it has done nothing new, unless something else takes it back. */
const isSameWork = (one: Acted, other: Acted): boolean =>
  one.idempotency_key === other.idempotency_key && sameJson(workOf(one), workOf(other))
const workOf = ({ action_type, inverse, no_inverse }: Acted) => ({ action_type, inverse, no_inverse }) as JsonObject

/** What the graph does not say yet, by action. What it says is forgotten here, once nothing more comes: until then it matters what led to what. */
export function* actedUntold({ acted, graph, flying }: LiveRun): Iterable<readonly [string, readonly Acted[]]> {
  for (const [id, { led }] of acted) {
    const list = led.map((one) => one.acted)
    if (!sameJson(list, graph.get('action', id)?.data.acted ?? [])) yield [id, list]
    else if (!flying.has(id)) acted.delete(id)
  }
}

/** What was carried out in a turn that was taken away is this one's, under the same key: what it does once more is one work, and its way back that of both. */
export function takesOverActed(run: LiveRun, { step, action }: Flight, decided: Decided): void {
  for (const { id, data } of ofKind(run.graph.state.referrers('step', step, 'EXECUTES'), 'action')) {
    const acted = decided.said.get(id)?.set.acted ?? data.acted
    if (!acted || data.idempotency_key !== action.idempotency_key || data.compensates !== undefined) continue
    setAction(decided, action.action_id, { acted })
    setAction(decided, id, { acted: undefined })
    run.acted.delete(id)
  }
}

function besideOf({ acted, graph }: LiveRun, id: string): Beside {
  const known = acted.get(id)
  if (known) return known
  const list = (graph.get('action', id)?.data.acted ?? []).map(item)
  return {
    led: list.map((acted) => ({ by: undefined, acted })),
    keys: new Set(list.map(({ idempotency_key }) => idempotency_key)),
    leaders: new Set(),
    bytes: list.reduce((sum, one) => sum + bytesOf(one), 0),
  }
}

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
