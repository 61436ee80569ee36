import { toldFindings, toldResults } from './findings.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFolder } from './with-tracker.ts'

export async function run(call: VerbCall): Promise<number> {
  const { args, io } = call
  const { signal } = io
  const onProgress = ({ files }: { files: number }) => io.progress(`${files} files`)
  return withFolder(call, args[0], { makes: true, signal, onProgress }, async (folder) => {
    const { root, files, folders, unreadable, settled, findings } = await folder.scan({ signal, onProgress })
    if (!io.json) for (const { path, code } of unreadable) io.warn(`${path} ${whyNot(code)}: nothing is said of it`)
    io.result({ root, files, folders, unreadable, settled, findings }, () =>
      [...(settled.length > 0 ? [toldResults(settled)] : []), toldFindings(findings)].join('\n'),
    )
    return findings.length === 0 ? EXIT.done : EXIT.unverified
  })
}

const whyNot = (code: string): string =>
  code === 'EILSEQ' ? 'stands for a name that is not UTF-8' : `cannot be read (${code})`
