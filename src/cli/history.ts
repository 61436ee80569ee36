import { find } from '../server/find.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const { graph, kind, id } = await find(project, args[0]!)
    const past = await graph.history(kind, id)
    io.result(past, () =>
      table(
        past.map(({ revision, at, actor, reason, after }) => [
          String(revision),
          at,
          actor,
          String(after?.status ?? ''),
          reason,
        ]),
      ),
    )
    return EXIT.done
  })
}
