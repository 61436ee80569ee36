import type { ComposedRuntime } from '../compose.ts'
import { DEFAULTS } from '../config.ts'
import type { FlowWithIds } from '../orchestrator/named-flow.ts'
import { resultIfEnded } from '../orchestrator/result.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { allWaitsOf, type Wait } from '../orchestrator/waits.ts'
import { InvalidInput } from '../protocol/errors.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { type Project, upToDate } from '../psg/project.ts'
import { idsOf } from './ids-of.ts'
import { EXIT, type Io, unbroken } from './io.ts'
import { approving, quoted, remedyOf } from './remedy.ts'
import { tellEnd } from './run-end.ts'
import { printEvents } from './run-events.ts'
import { GOES_ON, unlessLeft } from './unless-left.ts'
import type { VerbCall } from './verb.ts'
import { withProject, withRuntime } from './with-runtime.ts'

/** How a verb begins a run, and then stays with it or leaves it. */
export interface Seeing {
  readonly begin: (runtime: ComposedRuntime) => Promise<RunHandle>
  /** The plans that this process is to run, unless it leaves; may be added to while it begins. */
  readonly plans: ReadonlySet<string>
  /** Of a flow in short, its steps by their names. */
  readonly ids?: Ids
  /** Makes a store where there is none. */
  readonly makes?: true
}

/** Begins a run and waits until it has ended or needs somebody else, or until Ctrl-C; answers with the exit code. */
export async function seeRun(
  verb: string,
  { options, io }: VerbCall,
  { begin, plans, ids, makes }: Seeing,
): Promise<number> {
  if (options.detach) refuseStaying(verb, options)
  const work = async (runtime: ComposedRuntime) => {
    if (options.detach && forgets(runtime))
      throw new InvalidInput(verb, [
        { path: '--detach', rule: 'store', message: 'needs a store that outlives this process' },
      ])
    const run = await begin(runtime)
    io.say(`run ${run.run_id} of plan ${run.plan_id}`)
    if (options.detach && run.phase !== 'ended') {
      io.result(told(run, ids), () => 'submitted; `mplp resume` goes on with it')
      return EXIT.done
    }
    const printing = options.events ? printEvents(run, await loaded(run, runtime), io) : { stop: async () => undefined }
    const rest = await follow(run, runtime, io, options.approve as string | undefined).finally(printing.stop)
    return rest === 'left' ? { run, isForgotten: forgets(runtime) } : reports[rest](run, runtime, io, ids)
  }
  const drives = options.detach ? {} : { drives: plans }
  const done = await withRuntime<number | Left>(io, work, { ...(makes && { makes }), ...drives })
  return typeof done === 'number' ? done : leave(done, io, ids)
}

/** A run that Ctrl-C has ended the waiting for. */
interface Left {
  readonly run: RunHandle
  readonly isForgotten: boolean
}

/** What was in hand is finished by now, and may have been all that there was to do. */
async function leave({ run, isForgotten }: Left, io: Io, ids: Ids): Promise<number> {
  const ended = isForgotten ? undefined : await withProject(io, (project) => endedNow(project, run, io, ids))
  if (ended !== undefined) return ended
  io.warn(isForgotten ? `left; nobody can go on with it: ${FORGETS}` : GOES_ON)
  if (io.json) io.line({ status: 'left', ...told(run, ids) }, () => '') // people were told its ids when it began
  return EXIT.failed
}

async function endedNow(project: Project, run: RunHandle, io: Io, ids: Ids): Promise<number | undefined> {
  const graph = await project.context(run.context_id)
  const result = await resultIfEnded(graph, run.run_id, run.plan_id)
  return result && tellEnd(told(run, ids), result, graph, io)
}

/** Who leaves sees no event and is not there to approve. */
function refuseStaying(verb: string, { approve, events }: VerbCall['options']): void {
  const flags = [...(approve === undefined ? [] : ['--approve']), ...(events ? ['--events'] : [])]
  const problems = flags.map((path) => ({ path, rule: 'option', message: 'means nothing with --detach' }))
  if (problems.length > 0) throw new InvalidInput(verb, problems)
}

const FORGETS = 'this store forgets the run when this process ends'
const forgets = ({ store: { traits } }: ComposedRuntime): boolean => !traits.durable && traits.processes === 'one'

/** Waits until the run has ended or needs somebody else, or until Ctrl-C. */
async function follow(
  run: RunHandle,
  runtime: ComposedRuntime,
  io: Io,
  approve: string | undefined,
): Promise<'ended' | 'waiting' | 'left'> {
  const approved = new Set<string>()
  for (;;) {
    const rest = (await unlessLeft(io, run.rest(io.signal))) ?? 'left'
    if (rest !== 'waiting' || approve === undefined) return rest
    // What we have approved and is still open needs others too: to approve it again would have no end.
    const asked = decisionsIn(await waitsFor(run, runtime)).filter(({ confirm_id }) => !approved.has(confirm_id))
    const open = asked.filter(({ roles }) => roles?.includes(approve) ?? true)
    if (open.length === 0) {
      for (const { confirm_id, roles } of asked)
        io.warn(`not approved as ${approve}: ${confirm_id} is for ${roles!.join(' or ')}`)
      return rest
    }
    for (const { confirm_id } of open) {
      approved.add(confirm_id)
      await runtime.decide(confirm_id, { status: 'approved', decided_by_role: approve })
    }
  }
}

/** With its plan: one that has ended, as that of a rerun may have, has left memory. */
async function loaded({ context_id, plan_id }: RunHandle, { project }: ComposedRuntime): Promise<ProjectGraph> {
  const graph = await project.context(context_id)
  await graph.load(plan_id)
  return graph
}

/** Looks at its context, as others have left it, and those of its children alone: a store may be full of what waits for somebody. */
const waitsFor = async ({ context_id, plan_id }: RunHandle, { project }: ComposedRuntime): Promise<readonly Wait[]> =>
  allWaitsOf(project, await upToDate(project, { graph: context_id, group: plan_id }), plan_id)

const decisionsIn = (waits: readonly Wait[]): readonly Decision[] => waits.flatMap(({ decision }) => decision ?? [])
type Decision = NonNullable<Wait['decision']>

type Ids = FlowWithIds['ids'] | undefined

/** By which ids it is found; of a flow in short also its steps, since nobody else knows them by their names. */
const told = (run: RunHandle, steps: Ids) => ({ ...idsOf(run), ...(steps && { steps }) })

/** Each says how things stand, and answers with the exit code. */
const reports = {
  async ended(run: RunHandle, runtime: ComposedRuntime, io: Io, ids: Ids): Promise<number> {
    return tellEnd(told(run, ids), await run.result(), await runtime.project.context(run.context_id), io)
  },
  async waiting(run: RunHandle, runtime: ComposedRuntime, io: Io, ids: Ids): Promise<number> {
    const waits = await waitsFor(run, runtime)
    const decisions = decisionsIn(waits)
    const confirms = decisions.map(({ confirm_id }) => confirm_id)
    const waits_for = waits.map(({ what }) => what)
    const isForgotten = forgets(runtime)
    io.result({ status: 'waiting', ...told(run, ids), confirms, waits_for }, () => {
      if (isForgotten)
        return waits
          .map(({ what, decision }) => unbroken(`waiting for ${what}   ${decision?.reason ?? ''}`).trimEnd())
          .join('\n')
      return decisions.length === 0 ? waitingFor(run, waits) : asking(decisions)
    })
    if (isForgotten) io.warn(`nobody can make it go on: ${FORGETS}; ${instead(decisions)}`)
    return EXIT.waiting
  },
}

/** What can be done where no other process finds the run. */
function instead(decisions: readonly Decision[]): string {
  const role = decisions.find(({ roles }) => roles)?.roles?.[0]
  const now =
    decisions.length > 0 ? `--approve ${role === undefined ? '<role>' : quoted(role)} answers at once, and ` : ''
  return `${now}a store that lasts can wait, as --store ${DEFAULTS.vsl}`
}

const asking = (decisions: readonly Decision[]): string =>
  [
    `waiting for ${decisions.length === 1 ? 'a decision' : `${decisions.length} decisions`}:`,
    ...decisions.map(({ confirm_id, roles, reason = '' }) =>
      unbroken(`  ${approving(confirm_id, roles)}   ${reason}`).trimEnd(),
    ),
  ].join('\n')

const waitingFor = (run: RunHandle, waits: readonly Wait[]): string =>
  run.phase === 'paused'
    ? `paused: mplp resume ${run.plan_id} has it go on`
    : waits
        .map((wait) => unbroken([`waiting for ${wait.what}`, remedyOf(run.plan_id, wait) ?? []].flat().join(': ')))
        .join('\n')
