import type { RollbackReport } from '../orchestrator/rollback.ts'
import { rollback } from '../orchestrator/rollback.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    const { run_id, context_id } = await runtime.get(args[0]!)
    const graph = await runtime.project.context(context_id)
    const report = await rollback({ graph, layer: runtime.layer }, run_id, {
      dryRun: options.dryRun === true,
      irreversible: options.leave === true ? 'leave' : 'ask',
      actor: 'cli',
      signal: io.signal,
    })
    io.result(report, () => told(report))
    return report.status === 'waiting' ? EXIT.waiting : report.status === 'incomplete' ? EXIT.failed : EXIT.done
  })
}

function told({ status, plan, left, confirm_id }: RollbackReport): string {
  const lines = [
    `${status}: ${plan.effects.length} effects, ${plan.files.length} files, ${plan.changes.length} changes of the graph`,
  ]
  if (left.length > 0) lines.push(table(left.map(({ what, name, reason }) => ['left', what, name, reason])))
  if (confirm_id !== undefined && status === 'waiting')
    lines.push(`somebody must agree first: mplp confirm approve ${confirm_id}, then the same again`)
  return lines.join('\n')
}
