import { openConfigured } from '../configured-store.ts'
import { writeTrailing } from '../psg/write-trailing.ts'
import { copyStore } from '../vsl/copy.ts'
import { EXIT } from './io.ts'
import { storeNamed } from './load-config.ts'
import type { VerbCall } from './verb.ts'
import { warning, withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  const named = storeNamed('<to>', args[0]!) // before anything is opened
  return withProject(io, async ({ store }) => {
    const target = await openConfigured({ ...(await io.config()), ...named }, warning(io))
    try {
      const counts = await copyStore(store, target, {
        verify: true,
        signal: io.signal,
        onProgress: (counts) => io.progress(said(counts)),
      })
      if (target.traits.legible) await writeTrailing(target)
      io.result(counts, () => `copied and compared: ${said(counts)}`)
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
