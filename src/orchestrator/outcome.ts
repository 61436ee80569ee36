import type { Done } from '../drift/compensate.ts'
import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import { valueIn } from '../protocol/paths.ts'
import type { ActionRecord, Change, Node } from '../psg/change.ts'
import { firstActionOf } from '../psg/first-action.ts'
import { ofKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { allDone } from './acted.ts'

/** What a step came to: the latest of its actions that count, but a completed one before any that is not. Of several that began together one may have failed. */
export function outcomeOf(state: GraphState, step: string): Node<'action'> | undefined {
  return latestOf(state, dispatchesOf(state, step))
}

/** The same once these changes are made. */
export function outcomeAfter(state: GraphState, changes: readonly Change[], step: string): ActionRecord | undefined {
  const after = new Map<string, Dispatch>()
  for (const { id, born, data } of dispatchesOf(state, step)) after.set(id, { born, data })
  for (const change of changes) {
    if (change.kind === 'node_add' && change.node === 'action' && change.data.step_id === step)
      after.set(change.id, { born: Number.POSITIVE_INFINITY, data: change.data })
    else if (change.kind === 'node_update' && change.node === 'action') {
      const known = after.get(change.id)
      if (known) after.set(change.id, { ...known, data: { ...known.data, ...change.set } as ActionRecord })
    }
  }
  return latestOf(state, after.values())?.data
}

type Dispatch = Pick<Node<'action'>, 'born' | 'data'>

const dispatchesOf = (state: GraphState, step: string): Iterable<Node<'action'>> =>
  ofKind(state.referrers('step', step, 'EXECUTES'), 'action')

function latestOf<D extends Dispatch>(state: GraphState, dispatches: Iterable<D>): D | undefined {
  let latest: D | undefined
  for (const one of dispatches) if (isOutcome(state, one.data) && (!latest || outranks(one, latest))) latest = one
  return latest
}

const outranks = (one: Dispatch, other: Dispatch): boolean =>
  isCompleted(one) === isCompleted(other) ? one.born > other.born : isCompleted(one)
const isCompleted = ({ data }: Dispatch): boolean => data.status === 'completed'

/** Everything that was done for a plan and took effect, last done first. A step need not have come to its end for that. */
export function worksOf(state: GraphState, plan: string): readonly ActionRecord[] {
  const works: Done[] = []
  for (const { data } of ofKind(state.nodesOf(plan), 'action'))
    if (data.settles === undefined) works.push(...allDone(data).filter(({ action }) => tookEffect(action)))
  return works.sort((a, b) => b.ended - a.ended).map(({ action }) => action)
}
const tookEffect = ({ status, compensates }: ActionRecord): boolean =>
  status === 'completed' && compensates === undefined

/** Is this what a step came to, and not a word about it, a way back, or a result that lost to another of the same step or that nobody wanted? */
export function isOutcome(state: GraphState, action: ActionRecord): boolean {
  const { compensates, turn, settles, lost_to, step_id, carried_from } = action
  if (compensates !== undefined || settles?.what === 'conflict') return false
  if (turn !== undefined && turn.purpose !== 'work') return false
  const status = state.get('step', step_id)?.data.status
  if (status === 'failed' || status === 'skipped') return false
  if (carried_from !== undefined) return isCarriedOver(action)
  return lost_to === undefined
}

/** Is it what its step has come to in an earlier run, so that nobody has to do the step? What else was done for a step there has another id. */
export const isCarriedOver = ({ action_id, step_id, carried_from }: ActionRecord): boolean =>
  carried_from !== undefined && action_id === firstActionOf(step_id)

/** Did an earlier run do this step, so that nobody carries it out, though it may not have had its turn yet? */
export const isStepCarriedOver = (state: GraphState, step: string): boolean =>
  state.get('action', firstActionOf(step))?.data.carried_from !== undefined

/** Why an action failed; or its last attempt, where there was to be another. */
export const failureIn = ({ error, ended }: ActionRecord): Json | undefined => error ?? ended?.at(-1)?.attributes.error

/** Did nobody do it, but was it made of the answers to its step? */
export const isGathered = ({ settles }: ActionRecord): boolean => settles?.what === 'answers'

/** Does what an action gave lie in the store, all of it or a part? */
export const isElsewhere = (action: ActionRecord): boolean => action.output_blob !== undefined || isGathered(action)

/** The blob in which what a path leads to lies, if one does. */
export function blobAt(action: ActionRecord, [answer = '', member]: readonly string[]): Digest | undefined {
  if (!isGathered(action) || member !== 'output') return action.output_blob
  return valueIn(action.output, [answer, 'output_blob']) as Digest | undefined
}

/** What an action gave, whole. Of answers that were gathered, each may lie in the store by itself. */
export async function wholeOutput(
  action: ActionRecord,
  read: (digest: Digest) => Promise<Json | undefined>,
): Promise<Json | undefined> {
  const { output, output_blob } = action
  if (output_blob !== undefined) return read(output_blob)
  if (!isGathered(action)) return output
  const answers = output as readonly JsonObject[]
  const whole = ({ output_blob: digest, ...answer }: JsonObject) =>
    digest === undefined ? answer : read(digest as Digest).then((said) => ({ ...answer, output: said ?? null }))
  return Promise.all(answers.map(whole))
}
