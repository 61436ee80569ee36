import type { ComposedRuntime } from '../compose.ts'
import type { RollbackReport } from '../orchestrator/rollback.ts'
import { stepNamed } from '../orchestrator/waits.ts'
import { counted } from '../protocol/shown.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { changeCells } from './changes.ts'
import { EXIT, table } from './io.ts'
import { inOneLine } from './outputs.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const work = async (runtime: ComposedRuntime) => {
    const report = await runtime.rollback(args[0]!, {
      dryRun: options.dryRun === true,
      irreversible: options.leave === true ? 'leave' : 'ask',
      actor: 'cli',
      signal: io.signal,
    })
    const { context_id, plan_id, rerun_of } = await runtime.get(args[0]!)
    const graph = await runtime.project.context(context_id)
    await graph.load(plan_id) // steps are told by their names
    if (report.children.length > 0) {
      const where = `mplp ${rerun_of === undefined ? `show ${args[0]}` : `rollback ${args[0]} --dry-run --json`}` // not all are its own
      io.warn(`what its children did stays: ${where} names them, and each is taken back by itself`)
    }
    io.result(report, () => [told(report), ...(options.dryRun ? planned(report.plan, graph) : [])].join('\n'))
    return report.status === 'waiting' ? EXIT.waiting : report.status === 'incomplete' ? EXIT.failed : EXIT.done
  }
  return withRuntime(io, work, { drives: new Set() }) // of runs that have ended
}

/** What would be done, each in a line. */
function planned({ effects, files, changes }: RollbackReport['plan'], graph: ProjectGraph): readonly string[] {
  const rows = [
    ...effects.map(({ step_id, inverse: { action_type, params = {} } }) => [
      'effect',
      stepNamed(graph, step_id),
      inOneLine(`${String(action_type)} ${JSON.stringify(params)}`),
    ]),
    ...files.map(({ path, before }) => ['file', path, before === null ? 'goes away' : 'becomes what it was']),
    ...changes.map((change) => ['graph', ...changeCells(change)]),
  ]
  return rows.length === 0 ? [] : [table(rows)]
}

function told({ status, plan, left, confirm_id }: RollbackReport): string {
  const lines = [
    `${status}: ${counted(plan.effects.length, 'effect')}, ${counted(plan.files.length, 'file')}, ${counted(plan.changes.length, 'change')} of the graph`,
  ]
  if (left.length > 0) lines.push(table(left.map(({ what, name, reason }) => ['left', what, name, reason])))
  if (confirm_id !== undefined && status === 'waiting')
    lines.push(`somebody must agree first: mplp confirm approve ${confirm_id}, then the same again`)
  return lines.join('\n')
}
