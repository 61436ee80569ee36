import { resolve } from 'node:path'
import { exportPack } from '../golden/pack.ts'
import { counted } from '../protocol/shown.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const pack = await exportPack(project, args[0]!, resolve(io.cwd, args[1]!))
    io.result(
      pack,
      () =>
        `${counted(pack.files.length, 'file')} and ${counted(pack.events, 'event')} in ${pack.folder}\nroot ${pack.root}`,
    )
    return EXIT.done
  })
}
