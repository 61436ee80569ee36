import type { ComposedRuntime } from '../compose.ts'
import { lackingFor } from '../orchestrator/lacking.ts'
import { isOverdue } from '../orchestrator/standing.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import { find } from '../server/find.ts'
import { EXIT, type Io } from './io.ts'
import { type OpenRun, openRuns } from './open-runs.ts'
import { inOneLine } from './outputs.ts'
import { GOES_ON, unlessLeft } from './unless-left.ts'
import type { VerbCall } from './verb.ts'
import { withProject, withRuntime } from './with-runtime.ts'

/** With an id, has that run go on; otherwise takes up every run that needs nobody but a worker. Either way it waits for what it took up. */
export async function run({ args: [id], io }: VerbCall): Promise<number> {
  const drives = new Set<string>()
  const work = async (runtime: ComposedRuntime) => {
    const found = id === undefined ? await all(runtime, io) : await named(runtime, id)
    io.signal.throwIfAborted() // before anything is taken up
    for (const plan of found.able) drives.add(plan)
    if (id !== undefined) await runtime.resume(id)
    for (const { plan_id, lacks } of found.left) io.warn(`${plan_id} is left to others: ${lacks}`)
    return { found, taken: await takenUp(runtime, found.able, io) }
  }
  const { found, taken } = await withRuntime(io, work, { drives, patrolMs: SOON_MS })
  const resumed = taken.some(isLeft) ? await withProject(io, (project) => seenAgain(project, taken, io)) : taken
  if (resumed.some(isLeft)) io.warn(GOES_ON)
  io.result({ resumed, waiting: found.waiting, left: found.left }, () => said(resumed, found))
  if (resumed.some(isLeft) || found.left.length > 0) return EXIT.failed
  if (resumed.some(({ status }) => status === 'waiting')) return EXIT.waiting
  return resumed.some(({ status }) => status === 'failed') ? EXIT.failed : EXIT.done
}

/** Who came to work looks soon for what it has found it is able to do. */
const SOON_MS = 50

/** Plans by what can be done with their runs here and now. */
interface Found {
  readonly able: string[]
  /** They need somebody who is no worker. */
  readonly waiting: string[]
  readonly left: { readonly plan_id: string; readonly lacks: string }[]
}

async function named(runtime: ComposedRuntime, id: string): Promise<Found> {
  const { phase, plan_id, context_id, run_id } = await runtime.get(id)
  if (phase === 'ended') throw new InvalidInput('resume', [{ path: 'run', rule: 'ended', message: `${id} has ended` }])
  const graph = await runtime.project.context(context_id)
  const lacks = lacksFor(runtime, graph, graph.get('run', run_id)!)
  return {
    able: lacks === undefined ? [plan_id] : [],
    waiting: [],
    left: lacks === undefined ? [] : [{ plan_id, lacks }],
  }
}

async function all(runtime: ComposedRuntime, io: Io): Promise<Found> {
  const found: Found = { able: [], waiting: [], left: [] }
  const asleep: (readonly [at: number, plan: string])[] = []
  for await (const open of openRuns(runtime.project)) {
    const { plan_id } = open.run.data
    const wakes = wakesAt(open)
    const lacks = lacksFor(runtime, open.graph, open.run)
    if (wakes === undefined) found.waiting.push(plan_id)
    else if (lacks !== undefined) found.left.push({ plan_id, lacks })
    else if (wakes === 0) found.able.push(plan_id)
    else asleep.push([wakes, plan_id])
  }
  for (const [at, plan_id] of asleep.sort(([a], [b]) => a - b)) {
    found.able.push(plan_id)
    io.say(`${plan_id} sleeps until ${new Date(at).toISOString()}`)
  }
  return found
}

/** What this process would need to carry the rest of a run out and does not have, in a sentence; `undefined` when it has all. */
function lacksFor({ layer }: ComposedRuntime, graph: ProjectGraph, run: Node<'run'>): string | undefined {
  const found = lackingFor(graph, run, layer)
  return found && `there is no ${found.lacking.what} ${found.lacking.name}`
}

/** When a run needs a worker: 0 is now; `undefined`: not before somebody else has come. */
function wakesAt({ graph, run: { id, data }, waits }: OpenRun): number | undefined {
  if (data.requested !== undefined || (data.phase !== 'waiting' && data.phase !== 'paused')) return 0
  if (isOverdue(graph, id)) return 0
  const dues = waits.flatMap(({ due }) => due ?? [])
  return dues.length === 0 ? undefined : Math.min(...dues)
}

interface TakenUp {
  readonly plan_id: string
  /** How it ended, `waiting`, or `left` where it was to go on. */
  readonly status: string
  /** Of what it failed, or why it was cancelled. */
  readonly error?: RunError
}

/** All of them are driven at once; after Ctrl-C each is told as it is by then. */
async function takenUp(runtime: ComposedRuntime, plans: readonly string[], io: Io): Promise<readonly TakenUp[]> {
  const taken: TakenUp[] = []
  for (const plan_id of plans) {
    const handle = await runtime.get(plan_id)
    const rest = (await unlessLeft(io, handle.rest(io.signal))) ?? 'left'
    const { status, error } = rest === 'ended' ? await handle.result() : { status: rest }
    taken.push({ plan_id, status, ...(error && { error }) })
    if (rest !== 'left') io.say(`${plan_id} ${status}${error ? `: ${inOneLine(error.message)}` : ''}`)
  }
  return taken
}

async function seenAgain(project: Project, taken: readonly TakenUp[], io: Io): Promise<readonly TakenUp[]> {
  const seen: TakenUp[] = []
  for (const one of taken) {
    const now = isLeft(one) ? await asItIs(project, one) : one
    if (isLeft(one)) io.say(`${now.plan_id} ${now.status}`)
    seen.push(now)
  }
  return seen
}

/** What was in hand is finished by now, and may have been all that there was to do. */
async function asItIs(project: Project, left: TakenUp): Promise<TakenUp> {
  const { graph } = await find(project, left.plan_id)
  const { status } = (await graph.require('plan', left.plan_id)).data
  return isTerminal('plan', status) ? { ...left, status } : left
}

const isLeft = ({ status }: TakenUp): boolean => status === 'left'

function said(taken: readonly TakenUp[], { able, waiting }: Found): string {
  const left = taken.filter(isLeft).length
  if (able.length > 0) return left === 0 ? `${taken.length} taken up` : `${taken.length} taken up, ${left} of them left`
  return waiting.length === 0
    ? 'nothing to take up'
    : `nothing to take up; ${waiting.length} waiting for somebody: mplp list`
}
