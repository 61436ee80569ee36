import { InvalidInput } from '../protocol/errors.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  if (/^\d+$/.test(args[1]!))
    throw new InvalidInput('snapshot', [{ path: 'name', rule: 'name', message: 'is a number, which names a revision' }])
  return withProject(io, async (project) => {
    const graph = await project.context(args[0]!)
    const { data } = await graph.snapshot(args[1]!, { actor: 'cli', reason: 'somebody asked for a snapshot' })
    io.result(data, () => `${data.name} is revision ${data.revision}`)
    return EXIT.done
  })
}
