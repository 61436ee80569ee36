import { InvalidInput } from '../protocol/errors.ts'
import { dot, mermaid, picture } from '../psg/picture.ts'
import { find } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const { graph, kind, id } = await find(project, args[0]!)
    if (kind !== 'plan' && kind !== 'context')
      throw new InvalidInput('id', [
        { path: '', rule: 'enum', message: `names a ${kind}; a picture is of a plan or a context` },
      ])
    const what = kind === 'plan' ? { plan: id } : 'context'
    const state = kind === 'plan' ? graph.state : await graph.at(graph.revision) // memory lacks what has ended
    io.result(picture(state, what), () => (options.dot ? dot : mermaid)(state, what))
    return EXIT.done
  })
}
