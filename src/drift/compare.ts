import { append } from '../protocol/append.ts'
import { type Digest, digestOf, digestOfJson, type JsonObject, uuidIn } from '../protocol/json.ts'
import type { FileRecord, FileShape, FindingRecord } from '../psg/change.ts'
import type { Observed } from './observe.ts'
import { nameOf } from './select.ts'

/** One thing that graph and disk disagree about. */
export interface Finding {
  readonly what: Exclude<FindingRecord['what'], 'invariant'>
  /** Where it lies on the disk, or should. */
  readonly path: string
  /** Where the graph has it, of a file that was renamed. */
  readonly from?: string
  readonly believed?: FileRecord
  readonly observed?: Observed
  /** Of the disagreement itself: the same as long as neither side moves. */
  readonly digest: Digest
}

export function compare(
  believed: ReadonlyMap<string, FileRecord>,
  observed: ReadonlyMap<string, Observed>,
): readonly Finding[] {
  const findings: Finding[] = []
  const missing: FileRecord[] = []
  const appeared: [path: string, file: Observed][] = []
  for (const record of believed.values()) {
    const there = observed.get(record.path)
    if (there === undefined) missing.push(record)
    else {
      const what = difference(record, there)
      if (what) findings.push(finding(what, record.path, record, there))
    }
  }
  for (const [path, there] of observed) if (!believed.has(path) && isTracked(there)) appeared.push([path, there])
  const renamed = renames(missing, appeared)
  const arrived = new Set([...renamed.values()].map(([path]) => path))
  for (const record of missing) {
    const to = renamed.get(record.path)
    if (to) findings.push(finding('renamed', to[0], record, to[1]))
    else findings.push(finding('deleted', record.path, record, undefined))
  }
  for (const [path, there] of appeared) if (!arrived.has(path)) findings.push(finding('added', path, undefined, there))
  return findings.sort(byPath)
}

/** The order in which people are told: a graph has findings by their ids, which nobody could look one up by. */
export const byPath = (a: { readonly path: string }, b: { readonly path: string }): number => (a.path < b.path ? -1 : 1)

/** Stable, and of the form that the protocol asks of an id, so that a Confirm can name it. */
export function fileId(path: string): string {
  const hex = digestOf(path).slice('sha256:'.length)
  return uuidIn(hex, '89ab'.charAt(Number.parseInt(hex.charAt(16), 16) & 3))
}

export const findingId = ({ path, from }: Pick<Finding, 'path' | 'from'>): string => fileId(from ?? path)

/** What can be said of either side without its name and its times. */
export const shapeOf = ({ type, digest, size, mode, kept }: FileShape): FileShape => ({
  type,
  ...(digest !== undefined && { digest }),
  size,
  mode,
  kept,
})

type Shape = Omit<FileShape, 'kept'>
export const isSameShape = (a: Shape, b: Shape): boolean =>
  a.type === b.type && a.digest === b.digest && (a.mode === b.mode || a.type !== 'file')

/** The same, or nothing on both sides. */
export const isAs = (a: Shape | undefined, b: Shape | null | undefined): boolean =>
  a && b ? isSameShape(a, b) : !a && !b

/** Only these are: a folder or a pipe where nothing was expected is no business of ours. */
export const isTracked = <File extends Pick<FileShape, 'type'>>(file: File | undefined): file is File =>
  file?.type === 'file' || file?.type === 'link'

function difference(record: FileRecord, there: Observed): Finding['what'] | undefined {
  if (record.type !== there.type) return 'type_changed'
  if (record.digest !== there.digest) return 'modified'
  return record.type === 'file' && record.mode !== there.mode ? 'mode_changed' : undefined
}

function finding(
  what: Finding['what'],
  path: string,
  believed: FileRecord | undefined,
  observed: Observed | undefined,
): Finding {
  const from = what === 'renamed' ? { from: believed!.path } : {}
  const about: JsonObject = {
    what,
    path,
    ...from,
    ...(believed && { believed: sides(believed) }),
    ...(observed && { observed: sides(observed) }),
  }
  return {
    what,
    path,
    ...from,
    ...(believed && { believed }),
    ...(observed && { observed }),
    digest: digestOfJson(about),
  }
}

const sides = ({ type, digest, mode }: FileShape): JsonObject => ({
  type,
  mode,
  ...(digest !== undefined && { digest }),
})

type Arrival = readonly [path: string, file: Observed]

function renames(missing: readonly FileRecord[], appeared: readonly Arrival[]): ReadonlyMap<string, Arrival> {
  const found = new Map<string, Arrival>()
  if (missing.length === 0 || appeared.length === 0) return found
  const arrivals = new Map<Digest, Arrival[]>()
  for (const arrival of [...appeared].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { type, digest, size } = arrival[1]
    if (type !== 'file' || digest === undefined || size === 0) continue
    append(arrivals, digest, arrival)
  }
  const left = missing.filter(({ agreed }) => agreed?.type === 'file').sort(byPath)
  // Of several alike the one that is the same file on the disk is the likeliest, then one of the same name.
  const likeness: readonly ((record: FileRecord, arrival: Arrival) => boolean)[] = [
    ({ agreed }, [, file]) => agreed!.ino === file.ino,
    ({ path }, [to]) => nameOf(path) === nameOf(to),
    () => true,
  ]
  for (const isLike of likeness)
    for (const record of left) {
      const alike = arrivals.get(record.agreed!.digest)
      const at = found.has(record.path) ? -1 : (alike?.findIndex((arrival) => isLike(record, arrival)) ?? -1)
      if (at >= 0) found.set(record.path, alike!.splice(at, 1)[0]!)
    }
  return found
}
