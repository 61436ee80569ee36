import { type Question, questionsIn } from '../orchestrator/questions.ts'
import { toldOpen, toldWaits } from '../server/told-run.ts'
import { asks } from './asks.ts'
import { EXIT, table } from './io.ts'
import { limitIn } from './limit-in.ts'
import { listEnded } from './list-ended.ts'
import { openRuns } from './open-runs.ts'
import { inOneLine } from './outputs.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

/** A run, as GET /runs tells it. */
type Row = ReturnType<typeof toldOpen> & ReturnType<typeof toldWaits>

export async function run({ io, options }: VerbCall): Promise<number> {
  const most = mostOf(options)
  if (options.ended) return withProject(io, (project) => listEnded(project, io, { status: options.status, most }))
  return withProject(io, async (project) => {
    const rows: Row[] = []
    for await (const { graph, run, waits } of openRuns(project)) {
      io.progress(`${rows.push({ ...toldOpen(graph, run.data), ...toldWaits(waits) })} runs`)
      io.signal.throwIfAborted()
    }
    const questions = await questionsIn(project)
    const asked = questions.map(({ confirm: { confirm_id }, context_id }) => ({ confirm_id, context_id }))
    const lines = () => [...rows.map(cells), ...questions.map(askedCells)]
    io.result([...rows, ...asked], () =>
      rows.length + asked.length === 0 ? 'nothing runs and nothing waits' : table(lines()),
    )
    return EXIT.done
  })
}

const askedCells = ({ confirm, context_id, title }: Question): readonly string[] => [
  'waiting',
  `confirm ${confirm.confirm_id}`,
  `context ${context_id}`,
  inOneLine(asks(confirm, title)),
  '',
]

function cells({ phase, plan_id, context_id, title, waits_for, requested }: Row): readonly string[] {
  return [
    phase,
    `plan ${plan_id}`,
    `context ${context_id}`,
    inOneLine(title),
    [
      ...(waits_for.length === 0 ? [] : [`for ${waits_for.join(', ')}`]),
      ...(requested === undefined ? [] : [`is to ${requested}`]),
    ].join('; '),
  ]
}

/** How many of those that have ended; what is for them is refused without. */
function mostOf({ ended, status, limit }: VerbCall['options']): number {
  const given = Object.entries({ '--status': status, '--limit': limit }).filter(([, value]) => value !== undefined)
  const problems = ended ? [] : given.map(([path]) => ({ path, rule: 'ended', message: 'goes with --ended' }))
  return limitIn(typeof limit === 'string' ? limit : '20', problems)
}
