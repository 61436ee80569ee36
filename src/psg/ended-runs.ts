import { InvalidInput } from '../protocol/errors.ts'
import { problem } from '../protocol/problem.ts'
import type { PlanStatus } from '../protocol/types.ts'
import type { Node, Parent, Run } from './change.ts'
import { endIn, endOf, INDEX, idIn } from './indexes.ts'
import { ofKind } from './node.ts'
import { caughtUp, type Project } from './project.ts'

/** A run that has ended. */
export interface EndedRun {
  readonly run_id: string
  readonly plan_id: string
  readonly context_id: string
  readonly trace_id: string
  /** The plan's. */
  readonly status: PlanStatus
  readonly title: string
  readonly started_at?: string
  readonly ended_at?: string
  readonly error?: { readonly code: string; readonly message: string; readonly step_id?: string }
  /** The run that it goes on from. */
  readonly rerun_of?: string
  /** Whose child it is. */
  readonly parent?: Parent
}

export interface EndedOptions {
  readonly status?: string | undefined
  /** The id of a run, or its place: only those that ended before it. */
  readonly after?: string | undefined
  /** Called before each row, also of what is then passed over. */
  readonly onLook?: () => void
}

/** Runs that have ended, the last one first. Opens the contexts of those that somebody asks for; what is passed over costs its row. */
export async function* endedRuns(project: Project, options: EndedOptions = {}): AsyncIterable<EndedRun> {
  const { status, after, onLook } = options
  const from = after === undefined ? {} : { after: await rowOf(project, after) }
  for await (const [key, row] of project.store.scan(ROWS, from)) {
    onLook?.()
    const end = endIn(row)
    if (status !== undefined && end !== undefined && end !== status) continue
    const found = await find(project, idIn(key))
    const run = found && endOf(found.run) === key ? told(found) : undefined
    if (run && (status === undefined || run.status === status)) yield run
  }
}

/** Where a run stands in this order; good also once it was removed. */
export const placeOf = ({ ended_at = '', run_id }: EndedRun): string => INDEX.ended(ended_at, run_id).slice(ROWS.length)
export const isPlace = (after: string): boolean => /^[0-9a-f]{11}\/[^/]+$/.test(after)
const ROWS = 'ended/'

async function rowOf(project: Project, run: string): Promise<string> {
  if (isPlace(run)) return `${ROWS}${run}`
  const row = endOf((await find(project, run))?.run)
  if (row !== undefined) return row
  throw new InvalidInput('query', [problem('after', 'ended', 'must be the id of a run that has ended', run)])
}

interface Found {
  readonly context_id: string
  readonly run: Node<'run'> | undefined
  readonly plan: Node<'plan'> | undefined
}

async function find(project: Project, id: string): Promise<Found | undefined> {
  const where = await project.locate(id)
  if (!where) return undefined
  const graph = await caughtUp(project, where) // another process may have ended it
  const nodes = await graph.nodesOf(where.group, ['run', 'plan'])
  const run = [...ofKind(nodes, 'run')].find((node) => node.id === id)
  const plan = [...ofKind(nodes, 'plan')].find((node) => node.id === run?.data.plan_id)
  return { context_id: graph.id, run, plan }
}

function told({ context_id, run, plan }: Found): EndedRun | undefined {
  if (!run || !plan) return undefined
  const { run_id, plan_id, trace_id, started_at, ended_at, result } = run.data
  const error = result?.error as EndedRun['error']
  return {
    run_id,
    plan_id,
    context_id,
    trace_id,
    status: plan.data.status,
    title: plan.data.title,
    ...(started_at !== undefined && { started_at }),
    ...(ended_at !== undefined && { ended_at }),
    ...(error && { error }),
    ...originOf(run.data),
  }
}

/** The run that a run goes on from, and whose child it is. */
export const originOf = ({ rerun_of, parent }: Run): Pick<EndedRun, 'rerun_of' | 'parent'> => ({
  ...(rerun_of !== undefined && { rerun_of }),
  ...(parent && { parent }),
})
