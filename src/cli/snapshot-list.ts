import { snapshotsOf } from '../psg/snapshot.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const snapshots = snapshotsOf(await project.context(args[0]!)).map(({ data }) => data)
    io.result(snapshots, () =>
      snapshots.length === 0
        ? 'no snapshots'
        : table(snapshots.map(({ name, revision, taken_at }) => [name, `revision ${revision}`, taken_at])),
    )
    return EXIT.done
  })
}
