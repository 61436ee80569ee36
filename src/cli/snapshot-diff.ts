import { EXIT, table } from './io.ts'
import { revisionOf } from './revision.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const graph = await project.context(args[0]!)
    const to = args[2] === undefined ? graph.revision : revisionOf(graph, args[2])
    const differences = await graph.diff(revisionOf(graph, args[1]!), to)
    io.result(differences, () =>
      differences.length === 0
        ? 'nothing differs'
        : table(
            differences.map(({ kind, id, before, after }) => [
              before === undefined ? '+' : after === undefined ? '-' : '~',
              kind,
              id,
            ]),
          ),
    )
    return EXIT.done
  })
}
