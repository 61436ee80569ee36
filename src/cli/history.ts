import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async ({ graph, kind, id }) => {
    const past = await graph.history(kind, id)
    io.result(past, () =>
      table(
        past.map(({ revision, at, actor, reason, told, after }) => [
          String(revision),
          at,
          actor,
          told ?? (after ? String(after.status ?? '') : 'deleted'),
          reason,
        ]),
      ),
    )
    return EXIT.done
  })
}
