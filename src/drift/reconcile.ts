import { isoMicros } from '../protocol/clock.ts'
import { type Digest, digestOf } from '../protocol/json.ts'
import type { Agreed, FileOperation, FileRecord, FileShape } from '../psg/change.ts'
import { type Finding, isAs, isSameShape, isTracked, shapeOf } from './compare.ts'
import { mergeText, mergeValue } from './merge.ts'
import type { Observed } from './observe.ts'
import type { Strategy } from './policy.ts'
import { textOf } from './text.ts'

/** What settles a finding: what to do to the disk, and what the graph believes afterwards. */
export interface Resolution {
  readonly outcome: 'accepted' | 'restored' | 'merged'
  readonly operations: readonly FileOperation[]
  readonly records: readonly { readonly path: string; readonly record: FileRecord | null }[]
  /** New content that neither side had: to be stored before anything else. */
  readonly content?: Uint8Array
}

/** Both sides have changed and only a person can say what is meant. `marked` shows a text's two sides, between markers. */
export interface Clash {
  readonly outcome: 'conflict'
  readonly reason: 'overlap' | 'binary' | 'deleted_and_changed' | 'both_added' | 'type' | 'mode' | 'content_not_kept'
  readonly marked?: string
}

/** It cannot be done, or not without losing something for good. */
export interface Refusal {
  readonly outcome: 'refused'
  readonly reason: 'content_not_kept' | 'would_be_lost' | 'not_a_file' | 'in_the_way' | 'link_leaves_root'
}

/** What a merge needs to know beside the finding. */
export interface Sources {
  /** The last agreed state, of a file that the graph no longer has too. */
  readonly base?: Agreed
  /** Content by digest, as far as it is kept. */
  readonly content: (digest: Digest) => Uint8Array | undefined
}

export function resolve(
  finding: Finding,
  strategy: Exclude<Strategy, 'ask'>,
  sources: Sources,
): Resolution | Clash | Refusal {
  switch (strategy) {
    case 'files':
      return accepted(finding)
    case 'graph':
      return restored(finding)
    case 'merge':
      return merged(finding, sources)
    default:
      return strategy satisfies never
  }
}

/** The digests whose content `resolve` may ask for. */
export function wanted(finding: Finding, base: Agreed | undefined): readonly Digest[] {
  const { believed, observed } = finding
  if (!believed || observed?.type !== 'file' || !base) return []
  return [base.digest, believed.digest, ...(observed.digest === undefined ? [] : [observed.digest])]
}

/** The record of a file that graph and disk now have in common. */
export function recordOf(path: string, there: Observed, writtenBy?: string): FileRecord {
  const agreed = agreedOn(there)
  return {
    path,
    type: agreed.type,
    digest: agreed.digest,
    size: there.size,
    mode: there.mode,
    mtime: isoMicros(Math.round(Math.min(Math.max(there.mtime_ms, FIRST_MS), LAST_MS) * 1000)),
    kept: there.kept,
    ...(writtenBy !== undefined && { written_by: writtenBy }),
    agreed,
  }
}

/** Some file systems keep times of years that no date has; beside them stands what they really are. */
const FIRST_MS = Date.parse('0000-01-01T00:00:00Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59Z')

export function agreedOn(there: Observed): Agreed {
  const { digest, size, mode, kept, mtime_ms, ctime_ms, ino, racy } = there
  const agreed = { type: there.type as Agreed['type'], digest: digest!, size, mode, kept, mtime_ms, ctime_ms, ino }
  return racy ? { ...agreed, racy } : agreed
}

function accepted({ path, from, observed }: Finding): Resolution {
  const record = isTracked(observed) ? recordOf(path, observed) : null
  return { outcome: 'accepted', operations: [], records: [...goneFrom(from), { path, record }] }
}

function restored({ path, from, believed, observed }: Finding): Resolution | Refusal {
  if (observed?.type === 'other') return { outcome: 'refused', reason: 'not_a_file' }
  const loses = isTracked(observed) && observed.digest !== believed?.digest && !observed.kept
  if (loses) return { outcome: 'refused', reason: 'would_be_lost' }
  const expect = observed ? shapeOf(observed) : null
  if (!believed)
    return {
      outcome: 'restored',
      operations: [{ op: 'remove', path, expect: expect! }],
      records: [{ path, record: null }],
    }
  const become = shapeOf(believed)
  const records = [{ path: believed.path, record: believed }]
  if (from !== undefined && isSameShape(observed!, believed))
    return { outcome: 'restored', operations: [{ op: 'move', path, to: from, expect: expect! }], records }
  if (!believed.kept && observed?.digest !== believed.digest) return { outcome: 'refused', reason: 'content_not_kept' }
  const operations: FileOperation[] =
    from === undefined
      ? [{ op: 'put', path, expect, become }]
      : [
          { op: 'put', path: from, expect: null, become },
          { op: 'remove', path, expect: expect! },
        ]
  return { outcome: 'restored', operations, records }
}

function merged(finding: Finding, sources: Sources): Resolution | Clash | Refusal {
  const { believed, observed } = finding
  const { base } = sources
  const file = isTracked(observed) ? observed : undefined
  if (isAs(file, base)) return finding.from === undefined ? restored(finding) : brought(finding, shapeOf(believed!))
  if (isAs(believed, base)) return accepted(finding)
  if (!believed || !file) return { outcome: 'conflict', reason: 'deleted_and_changed' }
  if (!base) return { outcome: 'conflict', reason: 'both_added' }
  if (believed.type !== 'file' || file.type !== 'file' || base.type !== 'file')
    return { outcome: 'conflict', reason: 'type' }
  const mode = mergeValue(base.mode, believed.mode, file.mode)
  if (mode === undefined) return { outcome: 'conflict', reason: 'mode' }
  const digest = mergeValue<Digest | undefined>(base.digest, believed.digest, file.digest)
  if (digest !== undefined) {
    const { size, kept } = digest === believed.digest ? believed : file
    return brought(finding, { type: 'file', digest, size, mode, kept })
  }
  return mergedText(finding, base, mode, sources)
}

function mergedText(finding: Finding, base: Agreed, mode: number, { content }: Sources): Resolution | Clash | Refusal {
  const bytes = [base.digest, finding.believed!.digest, finding.observed!.digest!].map(content)
  if (bytes.includes(undefined)) return { outcome: 'conflict', reason: 'content_not_kept' }
  const texts = bytes.map((part) => textOf(part!))
  if (texts.includes(undefined)) return { outcome: 'conflict', reason: 'binary' }
  const [o, graph, file] = texts as [string, string, string]
  const both = mergeText(o, graph, file)
  if (!both.clean) return { outcome: 'conflict', reason: 'overlap', marked: both.marked }
  const text = Buffer.from(both.text)
  const shape: FileShape = { type: 'file', digest: digestOf(text), size: text.length, mode, kept: true }
  const settled = brought(finding, shape)
  return settled.outcome === 'conflict' ? settled : { ...settled, content: text }
}

/** Brings both sides to the same file, where the disk has it; not over what is nowhere else. */
function brought({ path, from, believed, observed }: Finding, shape: FileShape): Resolution | Clash {
  if (observed!.digest !== shape.digest && !observed!.kept) return { outcome: 'conflict', reason: 'content_not_kept' }
  const operations: FileOperation[] = isSameShape(observed!, shape)
    ? []
    : [{ op: 'put', path, expect: shapeOf(observed!), become: shape }]
  const { type, digest, size, mode, kept } = shape
  const record: FileRecord = { ...believed!, path, type: type as 'file', digest: digest!, size, mode, kept }
  return { outcome: 'merged', operations, records: [...goneFrom(from), { path, record }] }
}

/** Where a file was renamed from, there is none any more. */
const goneFrom = (from: string | undefined): Resolution['records'] =>
  from === undefined ? [] : [{ path: from, record: null }]
