import { isoNow } from '../protocol/clock.ts'
import { given } from '../protocol/given.ts'
import type { Digest } from '../protocol/json.ts'
import type { EventDraft, FindingRecord } from '../psg/change.ts'
import { type Finding, findingId, shapeOf } from './compare.ts'
import { contentOf, type Desk } from './desk.ts'
import { type Diff, unifiedDiff } from './diff.ts'
import { textOf } from './text.ts'

/** Larger files are not shown line by line. */
const DIFF_BYTES = 1024 * 1024
/** As JSON; longer diffs are not kept in the graph itself: an entry holds those of many findings, before and after, and of their questions. */
const INLINE_BYTES = 8 * 1024

/** A finding as it is put on record, with what a person wants to see. */
export async function describe(desk: Desk, finding: Finding): Promise<FindingRecord> {
  const diff = await diffOf(desk, finding)
  return {
    ...outline(desk, finding),
    ...(diff && { lines_added: diff.added, lines_removed: diff.removed }),
    ...(diff && diff.text !== '' && (await placed(desk, diff.text))),
  }
}

/** The same without its diff, where nobody is going to be asked. */
export function outline(desk: Desk, finding: Finding): FindingRecord {
  const { what, path, from, believed, observed, digest } = finding
  return {
    finding_id: findingId(finding),
    what,
    path,
    ...(from !== undefined && { from }),
    severity: desk.verdictOn(finding).severity,
    found_at: isoNow(desk.clock),
    digest,
    ...(believed && { believed: shapeOf(believed) }),
    ...(observed && { observed: shapeOf(observed) }),
    ...(believed?.written_by !== undefined && { written_by: believed.written_by }),
  }
}

/** What was seen, in the protocol's words: they know four kinds of change, so the summary tells the rest. */
export function seenEvent(record: FindingRecord, workspaceRoot: string): EventDraft {
  const { what, path, from, found_at, lines_added, lines_removed, diff, severity, finding_id } = record
  return {
    event: {
      event_type: 'file_update',
      event_family: 'external_integration',
      source: 'drift',
      finding_id,
      severity,
      payload: {
        file_path: path,
        change_type: CHANGES[what] ?? 'modified',
        timestamp: found_at,
        workspace_root: workspaceRoot,
        change_summary: summary(record),
        ...given({ previous_path: from, lines_added, lines_removed }),
        ...(diff !== undefined && { encoding: 'utf-8' }),
      },
    },
  }
}

/** In a few words, for people. */
export function summary({ what, path, from, believed, observed }: FindingRecord): string {
  switch (what) {
    case 'renamed':
      return `${from} was renamed to ${path}`
    case 'type_changed':
      return `${path} was a ${believed?.type} and is a ${observed?.type}`
    case 'mode_changed':
      return `${path} had mode ${octal(believed?.mode)} and has ${octal(observed?.mode)}`
    default:
      return `${path} was ${what}`
  }
}
const octal = (mode = 0): string => mode.toString(8).padStart(3, '0')

const CHANGES: { readonly [W in FindingRecord['what']]?: string } = {
  added: 'created',
  deleted: 'deleted',
  renamed: 'renamed',
}

async function diffOf(desk: Desk, { path, from, believed, observed }: Finding): Promise<Diff | undefined> {
  const [old, now] = await Promise.all([side(desk, believed), side(desk, observed)])
  if (old === null || now === null || believed?.digest === observed?.digest) return undefined
  return unifiedDiff(
    old === undefined ? undefined : { path: from ?? path, text: old },
    now === undefined ? undefined : { path, text: now },
  )
}

/** A side's text: `undefined` when there is no file, `null` when there is one that cannot be shown. */
async function side(desk: Desk, file: Finding['believed'] | Finding['observed']): Promise<string | null | undefined> {
  if (file === undefined) return undefined
  if (file.type !== 'file' || !file.kept || file.size > DIFF_BYTES) return null
  const bytes = await contentOf(desk, file.digest!)
  return (bytes && textOf(bytes)) ?? null
}

async function placed({ graph }: Desk, diff: string): Promise<{ diff: string } | { diff_blob: Digest }> {
  const isShort = Buffer.byteLength(JSON.stringify(diff)) <= INLINE_BYTES
  return isShort ? { diff } : { diff_blob: await graph.store.putBlob(Buffer.from(diff)) }
}
