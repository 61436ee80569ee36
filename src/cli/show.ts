import { DOCUMENT_KINDS, type DocumentKind } from '../psg/document.ts'
import { find } from './find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const { graph, kind, id } = await find(project, args[0]!)
    const isDocument = (DOCUMENT_KINDS as readonly string[]).includes(kind)
    const document = isDocument ? await graph.document(kind as DocumentKind, id) : (await graph.require(kind, id)).data
    io.result(document, () => JSON.stringify(document, undefined, 2))
    return EXIT.done
  })
}
