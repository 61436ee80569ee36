import type { RunResult } from '../orchestrator/run.ts'
import { stepNamed } from '../orchestrator/waits.ts'
import type { Json } from '../protocol/json.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { table } from './io.ts'

const MOST_STEPS = 20
const MOST_CHARACTERS = 100

/** What the steps of a run gave, for people: a line each, the beginning of what is long, and the last of many. */
export function outputLines(graph: ProjectGraph, { outputs }: RunResult): readonly string[] {
  const given = Object.entries(outputs).filter(([, output]) => output !== null)
  if (given.length === 0) return []
  const last = given.slice(-MOST_STEPS)
  const rows = last.map(([step, output]) => [stepNamed(graph, step), inOneLine(output)])
  const before = given.length - last.length
  return [...(before > 0 ? [`… ${before} more; --json has them all`] : []), table(rows)]
}

/** A value as people read it, or its beginning. */
export function inOneLine(output: Json): string {
  const text = (typeof output === 'string' ? output : JSON.stringify(output)).replaceAll(/\s+/g, ' ').trim()
  if (text.length <= MOST_CHARACTERS) return text
  return `${text.slice(0, MOST_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}…` // no half of a character
}
