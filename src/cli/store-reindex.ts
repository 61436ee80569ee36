import { counted } from '../protocol/shown.ts'
import { reindexProject } from '../psg/verify-project.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async ({ store, id }) => {
    const done = await reindexProject(store, id, {
      ...(args.length > 0 && { contexts: args }),
      onProgress: (count, of) => io.progress(`${count} of ${of} contexts`),
      signal: io.signal,
    })
    const { mended, findings } = done
    io.result(done, () =>
      [
        `${counted(mended.length, 'row')} put right in the indexes of ${counted(done.contexts, 'context')}`,
        ...(findings.length > 0 ? [table(findings.map(({ rule, node, message }) => [rule, node, message]))] : []),
      ].join('\n'),
    )
    return findings.length === 0 ? EXIT.done : EXIT.unverified
  })
}
