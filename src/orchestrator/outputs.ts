import { type Digest, type Json, table } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { failureIn, isElsewhere, isOutcome, wholeOutput } from './outcome.ts'

/** What the steps of a plan have given so far, by their ids. The plan must be loaded. */
export async function outputsOf(graph: ProjectGraph, plan: string): Promise<{ readonly [step_id: string]: Json }> {
  const outputs = table<Json>()
  const readJson = async (digest: Digest): Promise<Json | undefined> => {
    const bytes = await graph.store.getBlob(digest)
    return bytes && JSON.parse(new TextDecoder().decode(bytes))
  }
  const { state } = graph
  for (const record of lastOfSteps(state, plan, (one) => one.status === 'completed' && isOutcome(state, one))) {
    const output = isElsewhere(record) ? await wholeOutput(record, readJson) : record.output
    if (output !== undefined) outputs[record.step_id] = output
  }
  return outputs
}

/** Why steps of a plan failed, by their ids, also those that were skipped for it; `undefined` where none did. The plan must be loaded. */
export function failuresOf(
  { state }: ProjectGraph,
  plan: string,
): { readonly [step_id: string]: RunError } | undefined {
  const failed = lastOfSteps(state, plan, (one) => {
    if (one.compensates !== undefined || failureIn(one) === undefined) return false
    const status = state.get('step', one.step_id)?.data.status
    return status === 'failed' || status === 'skipped'
  })
  if (failed.length === 0) return undefined
  const failures = table<RunError>()
  for (const one of failed) failures[one.step_id] = failureIn(one) as RunError
  return failures
}

/** The last action of each step among these, in the plan's order, so that the same run is told the same way wherever it is read. */
function lastOfSteps(
  state: GraphState,
  plan: string,
  isMeant: (action: ActionRecord) => boolean,
): readonly ActionRecord[] {
  const latest = new Map<string, Node<'action'>>()
  for (const node of ofKind(state.nodesOf(plan), 'action')) {
    if (!isMeant(node.data)) continue
    if ((latest.get(node.data.step_id)?.born ?? 0) <= node.born) latest.set(node.data.step_id, node)
  }
  const placed = [...latest.values()].map(({ data }) => ({ data, at: state.get('step', data.step_id)?.at ?? 0 }))
  return placed.sort((a, b) => a.at - b.at).map(({ data }) => data)
}
