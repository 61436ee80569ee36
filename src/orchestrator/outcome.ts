import type { Digest, Json, JsonObject } from '../protocol/json.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import { isKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'

/** What a step came to: the latest of its dispatches that nothing else stands instead of. */
export function outcomeOf(state: GraphState, step: string): Node<'action'> | undefined {
  let latest: Node<'action'> | undefined
  for (const node of state.referrers('step', step, 'EXECUTES'))
    if (isKind(node, 'action') && isOutcome(state, node.data) && (!latest || node.born > latest.born)) latest = node
  return latest
}

/** Everything that was done for a step and took effect, latest first. */
export function worksOf(state: GraphState, step: string): readonly Node<'action'>[] {
  const works = [...state.referrers('step', step, 'EXECUTES')].filter((node) => isKind(node, 'action'))
  return works
    .filter(({ data }) => data.status === 'completed' && data.compensates === undefined && data.settles === undefined)
    .sort((a, b) => b.born - a.born)
}

/** Is this what a step came to, and not a word about it, a way back, or a result that lost to another of the same step? */
export function isOutcome(state: GraphState, { compensates, turn, settles, lost_to, step_id }: ActionRecord): boolean {
  if (compensates !== undefined || settles?.what === 'conflict') return false
  if (turn !== undefined && turn.purpose !== 'work') return false
  return lost_to === undefined || state.get('action', lost_to)?.data.step_id !== step_id
}

/** Does what an action gave lie in the store, all of it or a part? */
export const isElsewhere = ({ output_blob, settles }: ActionRecord): boolean =>
  output_blob !== undefined || settles?.what === 'answers'

/** What an action gave, whole. Of answers that were gathered, each may lie in the store by itself. */
export async function wholeOutput(
  { output, output_blob, settles }: ActionRecord,
  read: (digest: Digest) => Promise<Json | undefined>,
): Promise<Json | undefined> {
  if (output_blob !== undefined) return read(output_blob)
  if (settles?.what !== 'answers') return output
  const answers = output as readonly JsonObject[]
  const whole = ({ output_blob: digest, ...answer }: JsonObject) =>
    digest === undefined ? answer : read(digest as Digest).then((said) => ({ ...answer, output: said ?? null }))
  return Promise.all(answers.map(whole))
}
