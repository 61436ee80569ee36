import { find, shownAs } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const shown = await shownAs(await find(project, args[0]!))
    io.result(shown, () => JSON.stringify(shown, undefined, 2))
    return EXIT.done
  })
}
