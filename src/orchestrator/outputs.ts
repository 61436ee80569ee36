import { type Digest, type Json, table } from '../protocol/json.ts'
import type { ActionRecord, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import type { GraphState } from '../psg/state.ts'
import { isElsewhere, isOutcome, wholeOutput } from './outcome.ts'

/** What the steps of a plan have given so far, by their ids. The plan must be loaded. */
export async function outputsOf(graph: ProjectGraph, plan: string): Promise<{ readonly [step_id: string]: Json }> {
  const outputs = table<Json>()
  const readJson = async (digest: Digest): Promise<Json | undefined> => {
    const bytes = await graph.store.getBlob(digest)
    return bytes && JSON.parse(new TextDecoder().decode(bytes))
  }
  for (const record of outcomes(graph.state, plan)) {
    const output = isElsewhere(record) ? await wholeOutput(record, readJson) : record.output
    if (output !== undefined) outputs[record.step_id] = output
  }
  return outputs
}

/** What the steps of a plan came to, in the plan's order, so that the same run is told the same way wherever it is read. */
function outcomes(state: GraphState, plan: string): readonly ActionRecord[] {
  const latest = new Map<string, Node<'action'>>()
  for (const node of state.nodesOf(plan)) {
    if (!isKind(node, 'action') || node.data.status !== 'completed' || !isOutcome(state, node.data)) continue
    if ((latest.get(node.data.step_id)?.born ?? 0) <= node.born) latest.set(node.data.step_id, node)
  }
  const placed = [...latest.values()].map(({ data }) => ({ data, at: state.get('step', data.step_id)?.at ?? 0 }))
  return placed.sort((a, b) => a.at - b.at).map(({ data }) => data)
}
