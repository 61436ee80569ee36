import { type Clock, isoNow } from '../protocol/clock.ts'
import { given } from '../protocol/given.ts'
import type { Json } from '../protocol/json.ts'
import type { ActionRecord, NodeAdd } from '../psg/change.ts'
import { firstActionOf } from '../psg/first-action.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { endOf } from './acted.ts'
import { isGathered, outcomeOf } from './outcome.ts'

interface Carrying {
  readonly run_id: string
  /** What the steps are called in the plan that goes on. */
  readonly steps: ReadonlyMap<string, string>
  readonly idOf: (id: string) => string
  readonly clock: Clock
}

/**
 * What was done, in the plan that goes on: what a step came to as its first action, and whatever else was done for it beside that, so that it can be
 * taken back, and is a part of its session's past.
 */
export function carriedOver(
  graph: ProjectGraph,
  works: readonly ActionRecord[],
  { run_id, steps, idOf, clock }: Carrying,
): readonly NodeAdd<'action'>[] {
  const results = resultsAmong(graph, works)
  const gathered = [...results.values()].filter(isGathered)
  const stands = new Map<string, string>()
  for (const { action_id, step_id } of results.values()) stands.set(action_id, firstActionOf(steps.get(step_id)!))
  return [...works, ...gathered].map((work, at) => {
    const id = stands.get(work.action_id) ?? idOf(work.action_id)
    return carried(work, { id, step_id: steps.get(work.step_id)!, run_id, at, stands, clock })
  })
}

/** What steps came to that need not be done again, by step: all that went into it is still so. */
function resultsAmong({ state }: ProjectGraph, works: readonly ActionRecord[]): ReadonlyMap<string, ActionRecord> {
  const left = new Set(works.map(({ action_id }) => action_id))
  const results = new Map<string, ActionRecord>()
  for (const step of new Set(works.map(({ step_id }) => step_id))) {
    const result = resultOf(state, step)
    if (!result) continue
    const parts = isGathered(result) ? answersIn(state, result) : [result]
    if (parts.every(({ action_id }) => left.has(action_id))) results.set(step, result)
  }
  return results
}

/** What a step was completed with; or what an even earlier run did, though the step has not come to its turn since. */
function resultOf(state: GraphState, step: string): ActionRecord | undefined {
  const first = state.get('action', firstActionOf(step))?.data
  if (first?.carried_from) return first
  return state.get('step', step)?.data.status === 'completed' ? outcomeOf(state, step)?.data : undefined
}

/** What was gathered: the latest answers to its step, which an even earlier run may have begun to have answered. */
function answersIn(state: GraphState, { step_id, output }: ActionRecord): readonly ActionRecord[] {
  const answers: ActionRecord[] = []
  for (const { data } of ofKind(state.referrers('step', step_id, 'EXECUTES'), 'action'))
    if (data.turn?.purpose === 'work' && data.status === 'completed') answers.push(data)
  return answers.sort((a, b) => endOf(a) - endOf(b)).slice(-(output as readonly Json[]).length)
}

/** It keeps its key: to take it back twice is to take it back once. */
function carried(
  {
    action_id,
    idempotency_key,
    action_type,
    output,
    output_blob,
    inverse,
    no_inverse,
    turn,
    settles,
    ...was
  }: ActionRecord,
  { id, step_id, run_id, at, stands, clock }: Carried,
): NodeAdd<'action'> {
  const execution_id = clock.uuid()
  const now = isoNow(clock)
  const carried_from = { run_id, action_id }
  const lost_to = was.lost_to === undefined ? undefined : stands.get(was.lost_to)
  const lost = Object.entries(was.lost ?? {}).flatMap(([what, winner]) => {
    const stand = stands.get(winner)
    return stand === undefined ? [] : [[what, stand] as const]
  })
  return {
    kind: 'node_add',
    node: 'action',
    id,
    data: {
      action_id: id,
      step_id,
      idempotency_key,
      status: 'completed',
      attempts: 0,
      failures: 0,
      execution_id,
      ...given({ action_type }),
      ...(settles
        ? { settles }
        : {
            began: [{ segment_id: execution_id, at, started_at: now }],
            ended: [{ status: 'completed', at, finished_at: now, attributes: { carried_from } }],
          }),
      ...given({ turn, lost_to }),
      ...(lost.length > 0 && { lost: Object.fromEntries(lost) }),
      ...given({ inverse, no_inverse, output, output_blob }),
      carried_from,
    },
  }
}
interface Carried extends Pick<Carrying, 'run_id' | 'clock'> {
  readonly id: string
  readonly step_id: string
  readonly at: number
  /** What the actions are called in the plan that goes on that need not be done again there. */
  readonly stands: ReadonlyMap<string, string>
}
