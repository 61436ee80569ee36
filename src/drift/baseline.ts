import { eachOf, inParts } from '../protocol/each.ts'
import { counted } from '../protocol/shown.ts'
import type { FileRecord } from '../psg/change.ts'
import { snapshotsOf } from '../psg/snapshot.ts'
import type { Backend } from '../vsl/backend.ts'
import { fileId, isTracked } from './compare.ts'
import { ACTOR, becoming, commit, type Desk, inMemory, known, load, stored } from './desk.ts'
import { observe } from './observe.ts'
import { recordOf } from './reconcile.ts'
import { Elsewhere, isUnreadable } from './root.ts'
import { type Scan, type ScanOptions, scan } from './scan.ts'

/** The name of the revision at which a folder was first taken in whole. */
const BASELINE = 'drift.baseline'
const TAKEN_IN = 'files are taken in'
const PER_COMMIT = 1_000
/** So many are read before their content goes to the store, as far as it fits into these bytes. */
const PER_PARCEL = 2_000
const PARCEL_BYTES = 8 * 1024 * 1024
/** What is larger goes alone: a store may not take it, and must not refuse the rest with it. */
const PIECE_BYTES = 256 * 1024
/** Enough to keep the disk busy; more would only be more to hold. */
const AT_ONCE = 64

/** Has the folder been taken in, to its end? */
export const hasBaseline = ({ graph }: Desk): boolean => snapshotsOf(graph).some(({ data }) => data.name === BASELINE)

/** Takes everything that belongs into the graph as it lies there: what both sides agree on from the start. Safe to repeat when it was cut off. */
export async function takeBaseline(desk: Desk, options: ScanOptions = {}): Promise<Scan> {
  await load(desk)
  const found = await scan(desk.root, desk.select, known(desk), options)
  const parcel = parcelFor(desk.graph.store)
  let committing: Promise<void> = Promise.resolve()
  for (const paths of inParts(found.paths, PER_PARCEL)) {
    const [files] = await Promise.all([readFiles(desk, paths, parcel), committing]) // these are read while the last ones are being committed
    options.signal?.throwIfAborted()
    committing = takeIn(desk, files)
    committing.catch(() => undefined) // awaited with the next ones, or below
  }
  await committing
  options.signal?.throwIfAborted()
  await desk.graph.snapshot(BASELINE, { actor: ACTOR, reason: `${counted(found.files, 'file')} taken in` })
  return found
}

/** In the order of their keys, so that what a store writes in one commit lies together. */
async function takeIn(desk: Desk, files: readonly Taken[]): Promise<void> {
  const sorted = [...files].sort((a, b) => (a.id < b.id ? -1 : 1))
  for (const chunk of inParts(sorted, PER_COMMIT)) {
    // Another process may have been faster: what has happened to the files since is known better by now.
    const taking = () =>
      hasBaseline(desk) ? [] : chunk.flatMap(({ id, record }) => becoming(desk, 'file', id, record))
    await commit(desk, taking, TAKEN_IN)
  }
}

interface Taken {
  readonly id: string
  readonly record: FileRecord
}

/** Their content is in the store when this returns. */
async function readFiles(desk: Desk, paths: readonly string[], parcel: Parcel): Promise<readonly Taken[]> {
  const { graph, root, clock, keepBytes } = desk
  const observing = { now: clock.now, keepBytes, memory: inMemory, listed: true, ...parcel }
  const files: Taken[] = []
  await eachOf(paths, AT_ONCE, async (path) => {
    const there = await observe(root, path, observing).catch((error: NodeJS.ErrnoException) => {
      if (error instanceof Elsewhere || isUnreadable(error.code)) return undefined
      throw error
    })
    if (!isTracked(there)) return
    const id = fileId(path)
    files.push({ id, record: recordOf(path, there, graph.get('file', id)?.data.written_by) })
  })
  await parcel.send()
  return files
}

type Parcel = ReturnType<typeof parcelFor>

/**
 * Content on its way to a store, which takes a lot of it at once far cheaper than one by one. The memory that it is read into serves again after
 * each sending; what no longer fits goes alone.
 */
function parcelFor(store: Backend) {
  const memory = Buffer.allocUnsafeSlow(PARCEL_BYTES)
  let taken = 0
  let waiting: Uint8Array[] = []
  return {
    space(size: number): Buffer {
      if (taken + size > PARCEL_BYTES) return Buffer.allocUnsafe(size)
      taken += size
      return memory.subarray(taken - size, taken)
    },
    async keep(bytes: Uint8Array): Promise<boolean> {
      if (bytes.buffer !== memory.buffer || bytes.length > PIECE_BYTES) return stored(store, bytes)
      waiting.push(bytes)
      return true
    },
    async send(): Promise<void> {
      await Promise.all(waiting.map((bytes) => store.putBlob(bytes)))
      waiting = []
      taken = 0
    },
  }
}
