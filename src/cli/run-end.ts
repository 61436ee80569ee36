import type { RunResult } from '../orchestrator/run.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { EXIT, type Io } from './io.ts'
import { outputLines } from './outputs.ts'

/** Says how a run has ended, and what its steps gave. */
export async function tellEnd(
  ids: { readonly plan_id: string },
  result: RunResult,
  graph: ProjectGraph,
  io: Io,
): Promise<number> {
  const outputs = io.json ? [] : await outputLines(graph, ids, result)
  io.result({ ...ids, ...result }, () => {
    const status = io.paint(result.success ? 'green' : 'red', result.status)
    return [result.error ? `${status}: ${result.error.message}` : status, ...outputs].join('\n')
  })
  return result.success ? EXIT.done : EXIT.failed
}
