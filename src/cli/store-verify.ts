import { Corrupt } from '../protocol/errors.ts'
import { counted } from '../protocol/shown.ts'
import { projectIn } from '../psg/project-id.ts'
import { verifyProject } from '../psg/verify-project.ts'
import type { Backend } from '../vsl/backend.ts'
import { EXIT, type Io, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withStore } from './with-runtime.ts'

interface Verified {
  readonly contexts: number
  readonly findings: readonly { readonly rule: string; readonly node: string; readonly message: string }[]
}

export async function run({ args, io }: VerbCall): Promise<number> {
  const { contexts, findings } = await withStore(io, (store) => verified(store, args, io)).catch(damaged)
  io.result({ contexts, findings }, () =>
    findings.length === 0
      ? `${counted(contexts, 'context')} ${contexts === 1 ? 'holds' : 'hold'} together`
      : [table(findings.map(({ rule, node, message }) => [rule, node, message])), ...remedy(findings)].join('\n'),
  )
  return findings.length === 0 ? EXIT.done : EXIT.unverified
}

/** Of the store as it lies there: to open the project would give it a new id if it has lost its own, and what cannot be loaded can be proved wrong all the same. */
async function verified(store: Backend, named: readonly string[], io: Io): Promise<Verified> {
  const project = await projectIn(store)
  const { contexts, findings } = await verifyProject(store, project, {
    ...(named.length > 0 && { contexts: named }),
    onProgress: (done, of) => io.progress(`${done} of ${of} contexts`),
    signal: io.signal,
  })
  return { contexts, findings: project === undefined && contexts > 0 ? [LOST, ...findings] : findings }
}
const LOST = {
  rule: 'store.damaged',
  node: '-',
  message: 'the store does not tell the id of its project; bring it back from a backup',
}

const remedy = (findings: Verified['findings']): readonly string[] =>
  findings.every(({ rule }) => rule.startsWith('index.'))
    ? ['only the indexes are wrong: `mplp store reindex` makes them from the values']
    : []

/** What cannot even be read is found wanting too. */
function damaged(error: unknown): Verified {
  if (!(error instanceof Corrupt)) throw error
  return { contexts: 0, findings: [{ rule: 'store.damaged', node: '-', message: error.message }] }
}
