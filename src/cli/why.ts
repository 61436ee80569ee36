import { find } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const { graph, kind, id } = await find(project, args[0]!)
    const chain = await graph.why(kind, id)
    io.result(chain, () =>
      chain
        .map(
          (reason, depth) =>
            `${'  '.repeat(depth)}${reason.kind} ${io.paint('dim', reason.id)} ${reason.says}${reason.status === undefined ? '' : ` (${reason.status})`}`,
        )
        .join('\n'),
    )
    return EXIT.done
  })
}
