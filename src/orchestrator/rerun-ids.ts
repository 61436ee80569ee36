import { uuidOf } from '../protocol/json.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'

/** By which ids a run that has failed goes on: the same for whoever asks, however often. */
export const rerunIds = (run: string): { readonly run: string; readonly plan: string } => ({
  run: uuidOf(`rerun of ${run}`),
  plan: uuidOf(`plan of the rerun of ${run}`),
})

/** The run that has taken over what this one had done, if one has. Its plan must be loaded. */
export function takenOverBy({ state }: ProjectGraph, run: string): string | undefined {
  const again = rerunIds(run)
  if (!state.get('run', again.run)) return undefined
  for (const { data } of ofKind(state.nodesOf(again.plan), 'action'))
    if (data.carried_from !== undefined) return again.run
  return undefined
}
