import type { Spend } from '../ael/adapter.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, EventDraft } from '../psg/change.ts'
import type { LiveRun } from './live.ts'

/** Counts with an action what it has used up beside the attempt that ends: by what it carried out on its way, and before it paused for an approval. */
export function uses({ used }: LiveRun, action_id: string, spend: Spend): void {
  used.set(action_id, withUsage(used.get(action_id), spend))
}

/** The same with what the attempt under way says of itself. When it ends it tells all of it, and what is kept of it till then is left out again. */
export function usageSoFar({ used }: LiveRun, action_id: string, spent: Spend | undefined): JsonObject | undefined {
  const before = used.get(action_id)
  if (!spent) return before
  used.set(action_id, before ?? {})
  return withUsage(before, spent)
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
  for (const [unit, amount] of Object.entries(more)) sum[unit] = Number(sum[unit] ?? 0) + amount
  return sum
}
