import type { ComposedRuntime } from '../compose.ts'
import type { RollbackReport } from '../orchestrator/rollback.ts'
import { EXIT, table } from './io.ts'
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
    io.result(report, () => told(report))
    return report.status === 'waiting' ? EXIT.waiting : report.status === 'incomplete' ? EXIT.failed : EXIT.done
  }
  return withRuntime(io, work, { drives: new Set() }) // of runs that have ended
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
