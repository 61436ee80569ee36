import { whyOf } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found, project) => {
    const chain = await whyOf(project, found)
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
