import { stepNamed } from '../orchestrator/waits.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { EXIT, type Io, unbroken } from './io.ts'
import { failureLines, outputLines, undoneLines } from './outputs.ts'

/** Says how a run has ended, which of its steps failed, what was taken back and what was not, and what the others gave. */
export async function tellEnd(
  ids: { readonly plan_id: string },
  result: RunResult,
  graph: ProjectGraph,
  io: Io,
): Promise<number> {
  await graph.load(ids.plan_id) // it has ended, and may have left memory
  io.result({ ...ids, ...result }, () => {
    const status = io.paint(result.success ? 'green' : 'red', result.status)
    const step = result.error?.step_id
    const where = step === undefined ? [] : [`the step “${stepNamed(graph, step)}”`]
    const how = unbroken([status, ...where, result.error?.message ?? []].flat().join(': '))
    return [how, ...[failureLines, undoneLines, outputLines].flatMap((lines) => lines(graph, result))].join('\n')
  })
  return result.success ? EXIT.done : EXIT.failed
}
