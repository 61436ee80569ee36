import type { Spend } from '../ael/adapter.ts'
import { exact } from '../ael/spend.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, EventDraft } from '../psg/change.ts'
import { sameJson } from '../psg/plain.ts'
import type { LiveRun } from './live.ts'

/** Counts with an action what it has used up beside the attempt that ends: by what it carried out on its way, and before it paused for an approval. */
export function uses({ used }: LiveRun, action_id: string, spend: Spend): void {
  used.set(action_id, withUsage(used.get(action_id), spend))
}

/** Keeps what the attempt under way says of itself. When it ends it tells all of it, and what was kept of it till then is left out again. */
export function saysUsage({ used, soFar }: LiveRun, action_id: string, spent: Spend): void {
  used.set(action_id, used.get(action_id) ?? {})
  soFar.set(action_id, spent)
}

/** What the actions under way have used up, where the graph does not say it yet. */
export function usageUntold({ used, soFar, flying, graph }: LiveRun): ReadonlyMap<string, JsonObject> {
  const untold = new Map<string, JsonObject>()
  for (const [id, before] of used) {
    if (!flying.has(id)) continue
    const usage = withUsage(before, soFar.get(id) ?? {})
    if (!sameJson(usage, graph.get('action', id)?.data.usage ?? {})) untold.set(id, usage)
  }
  return untold
}

/** Which lines of the budget are told with these events, where the graph does not say it yet: whoever takes the run up tells no line again. */
export function linesTold({ ledger, graph, id }: LiveRun, events: readonly EventDraft[]): readonly Change[] {
  if (!events.some(({ event }) => event.event_family === 'cost_budget')) return []
  const { crossed } = ledger
  const known = graph.get('run', id)!.data.lines?.length ?? 0
  return crossed.size > known ? [{ kind: 'node_update', node: 'run', id, set: { lines: [...crossed] } }] : []
}

/** Of both together, each unit that either names. */
export function withUsage(before: JsonObject | undefined, more: Spend): JsonObject {
  if (!before) return { ...more }
  const sum = { ...before }
  for (const [unit, amount] of Object.entries(more)) sum[unit] = exact(Number(sum[unit] ?? 0) + amount)
  return sum
}
