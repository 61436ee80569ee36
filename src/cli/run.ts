import { resolve } from 'node:path'
import type { ComposedRuntime } from '../compose.ts'
import { type FlowWithIds, flowIn } from '../orchestrator/named-flow.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { checkedFlow } from '../orchestrator/submit-check.ts'
import { type Wait, waitsOf } from '../orchestrator/waits.ts'
import type { Question } from '../orchestrator/wishes.ts'
import { InvalidInput, NotFound, Refused, RuleViolation } from '../protocol/errors.ts'
import { approving } from './approving.ts'
import { EXIT, type Io } from './io.ts'
import { outputLines } from './outputs.ts'
import { readValue } from './read-value.ts'
import { remedyOf } from './remedy.ts'
import { printEvents } from './run-events.ts'
import { GOES_ON, unlessLeft } from './unless-left.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const { flow: given, ids } = flowIn(await readValue(resolve(io.cwd, args[0]!)))
  const flow = checkedFlow(given) // before a store is made for it
  if (options.detach) refuseStaying(options)
  const work = async (runtime: ComposedRuntime) => {
    if (options.detach && forgets(runtime))
      throw new InvalidInput('run', [
        { path: '--detach', rule: 'store', message: 'needs a store that outlives this process' },
      ])
    await refuseSecond(runtime, flow.plan.plan_id)
    const run = await runtime.submit(flow).catch(async (error: unknown) => {
      if (error instanceof RuleViolation) await refuseSecond(runtime, flow.plan.plan_id) // another process was faster
      throw error
    })
    io.say(`run ${run.run_id} of plan ${run.plan_id}`)
    if (options.detach) {
      io.result(told(run, ids), () => 'submitted; `mplp resume` goes on with it')
      return EXIT.done
    }
    const printing = options.events
      ? printEvents(run, await runtime.project.context(run.context_id), io)
      : { stop: async () => undefined }
    const rest = await follow(run, runtime, io, options.approve as string | undefined).finally(printing.stop)
    return reports[rest](run, runtime, io, ids)
  }
  return withRuntime(io, work, { makes: true, ...(!options.detach && { drives: new Set([flow.plan.plan_id]) }) })
}

/** Who leaves sees no event and is not there to approve. */
function refuseStaying({ approve, events }: VerbCall['options']): void {
  const flags = [...(approve === undefined ? [] : ['--approve']), ...(events ? ['--events'] : [])]
  const problems = flags.map((path) => ({ path, rule: 'option', message: 'means nothing with --detach' }))
  if (problems.length > 0) throw new InvalidInput('run', problems)
}

const forgets = ({ store: { traits } }: ComposedRuntime): boolean => !traits.durable && traits.processes === 'one'

/** A flow is run once: the rules would say so too, but of each of its ids. */
async function refuseSecond(runtime: ComposedRuntime, plan: string): Promise<void> {
  const before = await runtime.get(plan).catch((error: unknown) => {
    if (error instanceof NotFound) return undefined
    throw error
  })
  if (!before) return
  const remedy = `mplp show ${plan} shows how it went; to run it once more, give plan, steps and context new ids, or write the flow in short`
  throw new Refused(`plan ${plan} was submitted before`, remedy)
}

/** Waits until the run has ended or needs somebody else; Ctrl-C leaves it to be resumed. */
async function follow(
  run: RunHandle,
  runtime: ComposedRuntime,
  io: Io,
  approve: string | undefined,
): Promise<'ended' | 'waiting' | 'left'> {
  const approved = new Set<string>()
  for (;;) {
    const rest = (await unlessLeft(io, run.rest(io.signal), GOES_ON)) ?? 'left'
    if (rest !== 'waiting' || approve === undefined) return rest
    // What we have approved and is still open needs others too: to approve it again would have no end.
    const open = (await questionsOf(run, runtime)).filter(({ confirm }) => !approved.has(confirm.confirm_id))
    if (open.length === 0) return rest
    for (const { confirm } of open) {
      approved.add(confirm.confirm_id)
      await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: approve })
    }
  }
}

const questionsOf = async ({ plan_id }: RunHandle, runtime: ComposedRuntime) =>
  (await runtime.waiting()).filter((question) => question.plan_id === plan_id)

type Ids = FlowWithIds['ids'] | undefined

/** By which ids it is found; of a flow in short also its steps, since nobody else knows them by their names. */
const told = ({ run_id, plan_id, context_id }: RunHandle, steps: Ids) => ({
  run_id,
  plan_id,
  context_id,
  ...(steps && { steps }),
})

/** Each says how things stand, and answers with the exit code. */
const reports = {
  async ended(run: RunHandle, runtime: ComposedRuntime, io: Io, ids: Ids): Promise<number> {
    const result = await run.result()
    const outputs = io.json ? [] : await outputLines(await runtime.project.context(run.context_id), run, result)
    io.result({ ...told(run, ids), ...result }, () => {
      const status = io.paint(result.success ? 'green' : 'red', result.status)
      return [result.error ? `${status}: ${result.error.message}` : status, ...outputs].join('\n')
    })
    return result.success ? EXIT.done : EXIT.failed
  },
  async waiting(run: RunHandle, runtime: ComposedRuntime, io: Io, ids: Ids): Promise<number> {
    const questions = await questionsOf(run, runtime)
    const waits = waitsOf(await runtime.project.context(run.context_id), run.plan_id)
    io.result(
      {
        status: 'waiting',
        ...told(run, ids),
        confirms: questions.map((question) => question.confirm.confirm_id),
        waits_for: waits.map(({ what }) => what),
      },
      () => (questions.length === 0 ? waitingFor(run, waits) : asking(questions)),
    )
    if (forgets(runtime)) io.warn('nobody can make it go on: this store forgets the run when this process ends')
    return EXIT.waiting
  },
  async left(run: RunHandle, _: ComposedRuntime, io: Io, ids: Ids): Promise<number> {
    if (io.json) io.line({ status: 'left', ...told(run, ids) }, () => '') // people were told its ids when it began
    return EXIT.failed
  },
}

const asking = (questions: readonly Question[]): string =>
  [
    `waiting for ${questions.length === 1 ? 'a decision' : `${questions.length} decisions`}:`,
    ...questions.map(({ confirm, roles }) =>
      `  ${approving(confirm.confirm_id, roles)}   ${confirm.reason ?? ''}`.trimEnd(),
    ),
  ].join('\n')

const waitingFor = (run: RunHandle, waits: readonly Wait[]): string =>
  run.phase === 'paused'
    ? `paused: mplp resume ${run.plan_id} has it go on`
    : waits.map((wait) => [`waiting for ${wait.what}`, remedyOf(run.plan_id, wait) ?? []].flat().join(': ')).join('\n')
