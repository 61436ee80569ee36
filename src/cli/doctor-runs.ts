import type { ActionLayer } from '../ael/layer.ts'
import { type Lacking, lackingFor } from '../orchestrator/lacking.ts'
import { questionsIn } from '../orchestrator/questions.ts'
import { stepNamed } from '../orchestrator/waits.ts'
import { type Clock, systemClock } from '../protocol/clock.ts'
import type { EntryBody } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { Project } from '../psg/project.ts'
import { asks } from './asks.ts'
import type { Check } from './doctor.ts'
import { type OpenRun, openRuns } from './open-runs.ts'
import { approving, remedyOf } from './remedy.ts'

export interface RunChecks {
  readonly clock?: Clock
  readonly onProgress?: (line: string) => void
  /** What a worker would lack that is started here. */
  readonly lacks?: ActionLayer['lacks']
}

/** Nothing was committed for this long, and nothing that is waited for explains it. */
const QUIET_MS = 60_000

/** Every run that has not ended, and what each is waiting for. */
export async function checkRuns(project: Project, options: RunChecks = {}): Promise<readonly Check[]> {
  const { clock = systemClock, onProgress = () => undefined, lacks = () => undefined } = options
  const checks: Check[] = []
  for await (const run of openRuns(project)) {
    checks.push(await checkRun(run, clock, lacks))
    onProgress(`${checks.length} runs`)
  }
  return checks.length > 0 ? checks : [{ check: 'runs', verdict: 'ok', says: 'none is under way' }]
}

async function checkRun({ graph, run, waits }: OpenRun, clock: Clock, lacks: ActionLayer['lacks']): Promise<Check> {
  const { plan_id, phase, requested } = run.data
  const wish = requested === undefined ? '' : `, and is to ${requested}`
  const says = `plan ${plan_id} is ${phase}${wish}; it waits for ${waits.length === 0 ? 'a worker, or for a place in the one that has it' : waits.map(({ what }) => what).join(', ')}`
  const asked =
    phase === 'paused' ? `mplp resume ${plan_id}` : waits.flatMap((wait) => remedyOf(plan_id, wait) ?? [])[0]
  const quietMs = clock.now() - (await lastHeardOf(graph))
  const isTimely = waits.length > 0 && waits.every(({ due = Number.NEGATIVE_INFINITY }) => due > clock.now())
  const isAtRest = asked !== undefined || isTimely
  if (!isAtRest && quietMs < QUIET_MS) return { check: 'run', verdict: 'ok', says }
  const lacking = lackingFor(graph, run, { lacks })?.lacking
  const remedies = asked === undefined ? [] : [asked]
  if (lacking) remedies.push(`if no other worker runs: start one that has it, or mplp cancel ${plan_id}`)
  else if (!isAtRest) remedies.push('if no worker runs: mplp resume, or mplp serve')
  if (remedies.length === 0) return { check: 'run', verdict: 'ok', says }
  const quiet = isAtRest ? '' : `; nothing has happened for ${Math.round(quietMs / 1000)} s`
  return {
    check: 'run',
    verdict: 'warning',
    says: `${says}${quiet}${lacking ? `; ${leftFor(graph, lacking)}` : ''}`,
    remedy: remedies.join('; '),
  }
}

const leftFor = (graph: ProjectGraph, { step_id, what, name }: Lacking): string =>
  `a worker with this config would leave it: there is no ${what} ${name}, which the step “${stepNamed(graph, step_id)}” needs`

/** When anything was last committed to the context. */
async function lastHeardOf(graph: ProjectGraph): Promise<number> {
  for await (const { body } of graph.store.read(graph.id, { after: graph.revision - 1 }))
    return Date.parse((body as unknown as EntryBody).at)
  return 0
}

/** What waits for a person. */
export async function checkQuestions(project: Project): Promise<readonly Check[]> {
  const questions = await questionsIn(project)
  return questions.map(({ confirm, title, roles }) => ({
    check: 'confirm',
    verdict: 'warning',
    says: `${confirm.confirm_id} waits for a person since ${confirm.requested_at}: ${asks(confirm, title)}`,
    remedy: `${approving(confirm.confirm_id, roles)}, or reject`,
  }))
}
