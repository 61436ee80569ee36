import { isObject } from '../protocol/json.ts'
import { type ToldReason, whyOf } from '../server/find.ts'
import { EXIT, unbroken } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found, project) => {
    const chain = await whyOf(project, found)
    io.result(chain, () =>
      chain
        .map((reason, depth) => {
          const { kind, id, says } = reason
          const known = says === kind ? '' : ` ${says}`
          return `${'  '.repeat(depth)}${kind} ${io.paint('dim', id)}${unbroken(`${known}${standingOf(reason)}`)}`
        })
        .join('\n'),
    )
    return EXIT.done
  })
}

function standingOf({ status, by, error }: ToldReason): string {
  if (status === undefined) return ''
  const whom = by === undefined ? '' : ` by ${by.join(', ')}`
  const where = isObject(error) && typeof error.step_id === 'string' ? ` in step ${error.step_id}` : ''
  const ofWhat = isObject(error) ? `: ${String(error.message).split('\n', 1)[0]}` : ''
  return ` (${status}${whom}${where}${ofWhat})`
}
