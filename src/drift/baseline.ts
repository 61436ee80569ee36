import type { FileRecord } from '../psg/change.ts'
import { isKind } from '../psg/node.ts'
import { ACTOR, AT_ONCE, believed, believing, commit, type Desk, inChunks, known, load, observed } from './desk.ts'
import { eachOf } from './each.ts'
import { recordOf } from './reconcile.ts'
import { Elsewhere } from './root.ts'
import { type Scan, type ScanOptions, scan } from './scan.ts'

/** The name of the revision at which a folder was first taken in whole. */
const BASELINE = 'drift.baseline'
const TAKEN_IN = 'files are taken in'

/** Has the folder been taken in, to its end? */
export function hasBaseline({ graph }: Desk): boolean {
  for (const node of graph.state.nodesOf('-')) if (isKind(node, 'snapshot') && node.data.name === BASELINE) return true
  return false
}

/** Takes everything that belongs into the graph as it lies there: what both sides agree on from the start. Safe to repeat when it was cut off. */
export async function takeBaseline(desk: Desk, options: ScanOptions = {}): Promise<Scan> {
  await load(desk)
  const found = await scan(desk.root, desk.select, known(desk), options)
  let committing: Promise<void> = Promise.resolve()
  for (const chunk of inChunks(found.paths)) {
    const [records] = await Promise.all([recordsOf(desk, chunk), committing]) // these are read while the last ones are being committed
    options.signal?.throwIfAborted()
    committing = commit(desk, () => records.flatMap((record) => believing(desk, record.path, record)), TAKEN_IN)
    committing.catch(() => undefined) // awaited with the next ones, or below
  }
  await committing
  options.signal?.throwIfAborted()
  await desk.graph.snapshot(BASELINE, { actor: ACTOR, reason: `${found.files} files were taken in` })
  return found
}

async function recordsOf(desk: Desk, paths: readonly string[]): Promise<readonly FileRecord[]> {
  const records: FileRecord[] = []
  await eachOf(paths, AT_ONCE, async (path) => {
    const there = await observed(desk, path).catch((error: NodeJS.ErrnoException) => {
      if (error instanceof Elsewhere || error.code === 'EACCES' || error.code === 'EPERM') return undefined
      throw error
    })
    if (there && (there.type === 'file' || there.type === 'link'))
      records.push(recordOf(path, there, believed(desk, path)?.written_by))
  })
  return records
}
