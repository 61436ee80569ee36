import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { shown } from '../protocol/shown.ts'
import { EXIT, table } from './io.ts'
import { listEnded } from './list-ended.ts'
import { numberIn } from './number-in.ts'
import { openRuns } from './open-runs.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

interface Row {
  readonly kind: 'running' | 'waiting' | 'paused'
  readonly of: 'plan' | 'confirm'
  readonly id: string
  readonly context: string
  readonly waits_for?: readonly string[]
  /** What somebody wants of it, and no worker has heard yet. */
  readonly requested?: string
}

export async function run({ io, options }: VerbCall): Promise<number> {
  const most = mostOf(options)
  if (options.ended) return withProject(io, (project) => listEnded(project, io, { status: options.status, most }))
  return withProject(io, async (project) => {
    const rows: Row[] = []
    for await (const { graph, run, waits } of openRuns(project)) {
      const { phase, plan_id, requested } = run.data
      rows.push({
        kind: phase === 'waiting' || phase === 'paused' ? phase : 'running',
        of: 'plan',
        id: plan_id,
        context: graph.id,
        waits_for: waits.map(({ what }) => what),
        ...(requested !== undefined && { requested }),
      })
    }
    for await (const [key, where] of project.store.scan('waiting/'))
      rows.push({
        kind: 'waiting',
        of: 'confirm',
        id: key.slice('waiting/'.length),
        context: (where as { graph: string }).graph,
      })
    io.result(rows, () => (rows.length === 0 ? 'nothing runs and nothing waits' : table(rows.map(cells))))
    return EXIT.done
  })
}

const cells = ({ kind, of, id, context, waits_for = [], requested }: Row): readonly string[] => [
  kind,
  `${of} ${id}`,
  `context ${context}`,
  [
    ...(waits_for.length === 0 ? [] : [`for ${waits_for.join(', ')}`]),
    ...(requested === undefined ? [] : [`is to ${requested}`]),
  ].join('; '),
]

/** How many of those that have ended; what is for them is refused without. */
function mostOf({ ended, status, limit }: VerbCall['options']): number {
  const most = typeof limit === 'string' ? numberIn(limit) : 20
  const given = Object.entries({ '--status': status, '--limit': limit }).filter(([, value]) => value !== undefined)
  const problems: Problem[] = ended
    ? []
    : given.map(([path]) => ({ path, rule: 'ended', message: 'goes with --ended' }))
  if (!Number.isSafeInteger(most) || Number(most) < 1)
    problems.push({
      path: '--limit',
      rule: 'type',
      message: 'must be a whole number of at least 1',
      found: shown(most),
    })
  if (problems.length > 0) throw new InvalidInput('the command line', problems)
  return Number(most)
}
