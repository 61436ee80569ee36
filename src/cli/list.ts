import { questionsIn } from '../orchestrator/questions.ts'
import { toldOpen, toldWaits } from '../server/told-run.ts'
import { EXIT, table } from './io.ts'
import { limitIn } from './limit-in.ts'
import { listEnded } from './list-ended.ts'
import { openRuns } from './open-runs.ts'
import { inOneLine } from './outputs.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

/** A run, as GET /runs tells it, or a question. */
type Row =
  | (ReturnType<typeof toldOpen> & ReturnType<typeof toldWaits>)
  | { readonly confirm_id: string; readonly context_id: string }

export async function run({ io, options }: VerbCall): Promise<number> {
  const most = mostOf(options)
  if (options.ended) return withProject(io, (project) => listEnded(project, io, { status: options.status, most }))
  return withProject(io, async (project) => {
    const rows: Row[] = []
    for await (const { graph, run, waits } of openRuns(project)) {
      io.progress(`${rows.push({ ...toldOpen(graph, run.data), ...toldWaits(waits) })} runs`)
      io.signal.throwIfAborted()
    }
    for (const { confirm, context_id } of await questionsIn(project))
      rows.push({ confirm_id: confirm.confirm_id, context_id })
    io.result(rows, () => (rows.length === 0 ? 'nothing runs and nothing waits' : table(rows.map(cells))))
    return EXIT.done
  })
}

function cells(row: Row): readonly string[] {
  if ('confirm_id' in row) return ['waiting', `confirm ${row.confirm_id}`, `context ${row.context_id}`, '', '']
  const { phase, plan_id, context_id, title, waits_for, requested } = row
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
