import { Corrupt } from '../protocol/errors.ts'
import { counted } from '../protocol/shown.ts'
import type { Project } from '../psg/project.ts'
import { EXIT, type Io, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

interface Verified {
  readonly contexts: number
  readonly findings: readonly { readonly rule: string; readonly node: string; readonly message: string }[]
}

export async function run({ args, io }: VerbCall): Promise<number> {
  const { contexts, findings } = await withProject(io, (project) => verified(project, args, io)).catch(damaged)
  io.result({ contexts, findings }, () =>
    findings.length === 0
      ? `${counted(contexts, 'context')} ${contexts === 1 ? 'holds' : 'hold'} together`
      : [table(findings.map(({ rule, node, message }) => [rule, node, message])), ...remedy(findings)].join('\n'),
  )
  return findings.length === 0 ? EXIT.done : EXIT.unverified
}

const verified = (project: Project, named: readonly string[], io: Io): Promise<Verified> =>
  project.verify({
    ...(named.length > 0 && { contexts: named }),
    onProgress: (done, of) => io.progress(`${done} of ${of} contexts`),
    signal: io.signal,
  })

const remedy = (findings: Verified['findings']): readonly string[] =>
  findings.every(({ rule }) => rule.startsWith('index.'))
    ? ['only the indexes are wrong: `mplp store reindex` makes them from the values']
    : []

/** What cannot even be read is found wanting too. */
function damaged(error: unknown): Verified {
  if (!(error instanceof Corrupt)) throw error
  return { contexts: 0, findings: [{ rule: 'store.damaged', node: '-', message: error.message }] }
}
