import { stepNamed } from '../orchestrator/waits.ts'
import type { Json } from '../protocol/json.ts'
import type { RunResult } from '../protocol/run-result.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { table } from './io.ts'

const MOST_STEPS = 20
const MOST_CHARACTERS = 100

/** What the steps of a run gave, for people. */
export const outputLines = (graph: ProjectGraph, { outputs }: RunResult): readonly string[] =>
  lastOf(
    Object.entries(outputs).filter(([, output]) => output !== null),
    ([step, output]) => [stepNamed(graph, step), inOneLine(output)],
  )

/** Which steps failed or were skipped, and why; but for the one that the whole run failed of, which is told with it. */
export const failureLines = (graph: ProjectGraph, { failures = {}, error }: RunResult): readonly string[] =>
  lastOf(
    Object.entries(failures).filter(([step]) => step !== error?.step_id),
    ([step, { message }]) => [`${graph.get('step', step)?.data.status}: ${stepNamed(graph, step)}`, inOneLine(message)],
  )

/** What became of each action that was to be taken back. */
export const undoneLines = (graph: ProjectGraph, { undone = [] }: RunResult): readonly string[] =>
  lastOf(undone, ({ step_id, status, error, reason = String(error?.message ?? 'it cannot be undone') }) =>
    status === 'undone'
      ? [`taken back: ${stepNamed(graph, step_id)}`]
      : [`not taken back: ${stepNamed(graph, step_id)}`, inOneLine(reason)],
  )

/** A line each, and of many the last. */
function lastOf<T>(all: readonly T[], cells: (one: T) => readonly string[]): readonly string[] {
  if (all.length === 0) return []
  const last = all.slice(-MOST_STEPS)
  const before = all.length - last.length
  return [...(before > 0 ? [`… ${before} more; --json has them all`] : []), table(last.map(cells))]
}

/** A value as people read it, or its beginning. */
export function inOneLine(output: Json): string {
  const text = (typeof output === 'string' ? output : JSON.stringify(output)).replaceAll(/\s+/g, ' ').trim()
  if (text.length <= MOST_CHARACTERS) return text
  return `${text.slice(0, MOST_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}…` // no half of a character
}
