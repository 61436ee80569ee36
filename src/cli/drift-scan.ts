import type { Reconciled } from '../drift/drift.ts'
import { toldFindings, toldResults } from './findings.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withTracker } from './with-tracker.ts'

export async function run(call: VerbCall): Promise<number> {
  const { args, io } = call
  const { signal } = io
  const onProgress = ({ files }: { files: number }) => io.progress(`${files} files`)
  const done: Reconciled[] = []
  const onReconciled = (results: readonly Reconciled[]) => void done.push(...results)
  return withTracker(call, args[0], { makes: true, signal, onProgress, onReconciled }, async (tracker) => {
    const { files, folders, unreadable } = await tracker.scan({ signal, onProgress })
    const findings = tracker.findings()
    if (!io.json) for (const { path, code } of unreadable) io.warn(`${path} ${whyNot(code)}: nothing is said of it`)
    const settled = done.filter(({ outcome }) => outcome !== 'asked') // which is a finding still
    io.result({ root: tracker.root, files, folders, unreadable, settled, findings }, () =>
      [...(settled.length > 0 ? [toldResults(settled)] : []), toldFindings(findings)].join('\n'),
    )
    return findings.length === 0 ? EXIT.done : EXIT.unverified
  })
}

const whyNot = (code: string): string =>
  code === 'EILSEQ' ? 'stands for a name that is not UTF-8' : `cannot be read (${code})`
