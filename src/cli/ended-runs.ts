import { systemClock } from '../protocol/clock.ts'
import { type RunPlace, timedRuns, untimedRuns } from '../psg/past-runs.ts'
import type { Project } from '../psg/project.ts'

/** A run that has ended. */
export interface EndedRun {
  readonly kind: string
  readonly of: 'plan'
  readonly id: string
  readonly context: string
  readonly title: string
  readonly started_at?: string
  readonly ended_at?: string
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * Runs that have ended, those that were submitted last first. Opens the contexts of those that somebody asks for, of what is passed over, and of those
 * whose ids do not tell when that was.
 */
export async function* endedRuns(
  project: Project,
  { status, onLook }: { readonly status: string | undefined; readonly onLook: () => void },
): AsyncIterable<EndedRun> {
  const now = systemClock.now()
  const look = (place: RunPlace) => {
    onLook()
    return endedAt(project, place)
  }
  const isWanted = ({ kind }: EndedRun) => status === undefined || kind === status
  const untimed: EndedRun[] = []
  for await (const place of untimedRuns(project.store, now)) {
    const run = await look(place)
    if (run && isWanted(run)) untimed.push(run)
  }
  untimed.sort((a, b) => beganAt(b) - beganAt(a))
  for await (const place of timedRuns(project.store, now)) {
    while (untimed.length > 0 && beganAt(untimed[0]!) >= place.submitted) yield untimed.shift()!
    const run = await look(place)
    if (run && isWanted(run)) yield run
  }
  yield* untimed
}

const beganAt = ({ started_at, ended_at }: EndedRun): number => Date.parse(started_at ?? ended_at ?? '') || 0

async function endedAt(project: Project, { graph: context, group, run }: RunPlace): Promise<EndedRun | undefined> {
  const graph = await project.context(context)
  await graph.load(group)
  const { phase, started_at, ended_at, result } = graph.get('run', run)?.data ?? {}
  const plan = graph.get('plan', group)?.data
  if (phase !== 'ended' || !plan) return undefined
  const error = result?.error as EndedRun['error']
  return {
    kind: plan.status,
    of: 'plan',
    id: plan.plan_id,
    context,
    title: plan.title,
    ...(started_at !== undefined && { started_at }),
    ...(ended_at !== undefined && { ended_at }),
    ...(error && { error }),
  }
}
