import { counted } from '../protocol/shown.ts'
import { changeCells } from './changes.ts'
import { EXIT, table } from './io.ts'
import { revisionOf } from './revision.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const graph = await project.context(args[0]!)
    const { changes, conflicts } = await graph.restore({
      to: revisionOf(graph, args[1]!),
      dryRun: options.dryRun === true,
      actor: 'cli',
      reason: `back to ${args[1]}`,
    })
    io.result({ changes, conflicts }, () =>
      [
        `${counted(changes.length, 'change')} ${options.dryRun ? 'would go back' : 'went back'}`,
        ...(options.dryRun && changes.length > 0 ? [table(changes.map(changeCells))] : []),
        ...(conflicts.length > 0 ? [table(conflicts.map(({ kind, id, message }) => ['left', kind, id, message]))] : []),
      ].join('\n'),
    )
    return conflicts.length === 0 ? EXIT.done : EXIT.failed
  })
}
