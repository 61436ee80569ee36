import { openConfigured } from '../configured-store.ts'
import { type WithoutEnded, withoutEnded } from '../orchestrator/without-ended.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { counted } from '../protocol/shown.ts'
import { writeTrailing } from '../psg/write-trailing.ts'
import { copyStore } from '../vsl/copy.ts'
import { EXIT } from './io.ts'
import { storeNamed } from './load-config.ts'
import { timeIn } from './time-in.ts'
import type { VerbCall } from './verb.ts'
import { warning, withProject } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const named = storeNamed('<to>', args[0]!) // before anything is opened
  const given = options.withoutEnded
  const before = given === undefined ? undefined : timeIn('--without-ended', String(given))
  const forget = options.forgetBus as readonly string[] | undefined
  if (forget && before === undefined)
    throw new InvalidInput('the command line', [
      { path: '--forget-bus', rule: 'ended', message: 'goes with --without-ended: a whole copy keeps every bus' },
    ])
  return withProject(io, async ({ store }) => {
    const { signal } = io
    if (before !== undefined) io.progress('looking for what has ended')
    const part =
      before === undefined ? undefined : await withoutEnded(store, { before, signal, ...(forget && { forget }) })
    const target = await openConfigured({ ...(await io.config()), ...named }, warning(io))
    try {
      const counts = await copyStore(part ?? store, target, {
        verify: true,
        signal,
        onProgress: (counts) => io.progress(said(counts)),
      })
      if (target.traits.legible) await writeTrailing(target)
      const rest = part && { left_out: [...part.leftOut], behind: [...part.behind] }
      io.result({ ...counts, ...rest }, () => [`copied and compared: ${said(counts)}`, ...saidOf(part)].join('\n'))
      return EXIT.done
    } finally {
      await target.close()
    }
  })
}

const said = (counts: object): string =>
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')

function* saidOf(part: WithoutEnded | undefined): Iterable<string> {
  if (!part) return
  yield `left out: ${counted(part.leftOut.size, 'context')}`
  if (part.behind.size > 0)
    yield `some stay because they have not been told of yet by ${[...part.behind].join(', ')}: mplp resume tells them, or mplp serve where the bus lives in its process, as mplp.serve does; --forget-bus leaves out a bus that is no longer used`
}
