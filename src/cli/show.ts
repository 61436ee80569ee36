import { shownAs } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found) => {
    const shown = await shownAs(found)
    io.result(shown, () => JSON.stringify(shown, undefined, 2))
    return EXIT.done
  })
}
