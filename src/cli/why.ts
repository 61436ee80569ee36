import type { Reason } from '../psg/why.ts'
import { whyOf } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found, project) => {
    const chain = await whyOf(project, found)
    io.result(chain, () =>
      chain
        .map((reason, depth) => {
          const { kind, id, says } = reason
          return `${'  '.repeat(depth)}${kind} ${io.paint('dim', id)} ${says}${standingOf(reason)}`
        })
        .join('\n'),
    )
    return EXIT.done
  })
}

function standingOf({ status, by }: Reason): string {
  if (status === undefined) return ''
  return by === undefined ? ` (${status})` : ` (${status} by ${by.join(', ')})`
}
