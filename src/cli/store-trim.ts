import { trim } from '../orchestrator/trim.ts'
import { counted } from '../protocol/shown.ts'
import { saidBehind } from './behind.ts'
import { EXIT } from './io.ts'
import { timeIn } from './time-in.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const before = timeIn('<before>', args[0]!) // before anything is opened
  const forget = options.forgetBus as readonly string[] | undefined
  const dryRun = options.dryRun === true
  return withProject(io, async ({ store }) => {
    io.progress('looking for what has ended')
    const trimmed = await trim(store, {
      before,
      dryRun,
      signal: io.signal,
      ...(forget && { forget }),
      onProgress: ({ contexts }, looked) =>
        io.progress(
          `${counted(looked, 'context')} looked at, ${contexts.length} ${dryRun ? 'to be taken' : 'taken'} away`,
        ),
    })
    const { contexts, behind, unreadable, blobs } = trimmed
    io.result(trimmed, () =>
      [
        dryRun
          ? `${counted(contexts.length, 'context')} would be taken away`
          : `${counted(contexts.length, 'context')} and ${counted(blobs, 'blob')} taken away`,
        ...(dryRun ? contexts : []),
        ...saidBehind(behind),
        ...unreadable.map((context) => `${context} stays, since it cannot be read: mplp store verify ${context}`),
      ].join('\n'),
    )
    return EXIT.done
  })
}
