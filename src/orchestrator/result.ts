import { NotFound } from '../protocol/errors.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { failuresOf, outputsOf } from './outputs.ts'

/** How a run has ended, as the graph has it; `undefined` where it has not. */
export const resultIfEnded = async (graph: ProjectGraph, run: string, plan: string): Promise<RunResult | undefined> =>
  (await runHasEnded(graph, run, plan)) ? resultOf(graph, run, plan) : undefined

/** Throws NotFound for a run that is not there. */
export async function runHasEnded(graph: ProjectGraph, run: string, plan: string): Promise<boolean> {
  const node = graph.get('run', run)
  if (node) return node.data.phase === 'ended'
  await graph.load(plan) // it ended and left memory
  if (!graph.get('run', run)) throw new NotFound('run', run)
  return graph.get('run', run)?.data.phase === 'ended'
}

type Stored = Partial<Pick<RunResult, 'status' | 'error' | 'resources' | 'undone'>>

/** What came of a run that has ended, with its plan in memory. */
export async function resultOf(graph: ProjectGraph, run: string, plan: string): Promise<RunResult> {
  const { status = 'failed', error, resources, undone } = (graph.get('run', run)?.data.result ?? {}) as Stored
  const failures = failuresOf(graph, plan)
  return {
    success: status === 'completed',
    status,
    ...(error && { error }),
    outputs: await outputsOf(graph, plan),
    ...(failures && { failures }),
    ...(resources && { resources }),
    ...(undone && { undone }),
  }
}
