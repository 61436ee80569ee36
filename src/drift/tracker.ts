import type { Clock } from '../protocol/clock.ts'
import {
  amount,
  anything,
  clock,
  type Field,
  flag,
  list,
  method,
  refuseUnlessFit,
  signal,
  text,
  timeout,
  wholeFrom,
} from '../protocol/fields.ts'
import { type Digest, isObject } from '../protocol/json.ts'
import type { FindingRecord } from '../psg/change.ts'
import type { Observed } from './observe.ts'
import { policy, type Rule, type Strategy } from './policy.ts'
import type { Scan, ScanOptions } from './scan.ts'
import { type Selection, selectFiles } from './select.ts'
import type { Reconciled } from './settle.ts'
import type { Reader } from './stale.ts'
import type { TakenBack, TakingBack } from './take-back.ts'
import type { Writing } from './writing.ts'

export interface TrackOptions extends Selection {
  readonly root: string
  /** Content up to this many bytes is kept, so that it can be shown, merged and brought back: 5 MiB. Of larger files only the digest is known. */
  readonly keepBytes?: number
  /** Who wins where. What no rule matches is asked. */
  readonly rules?: readonly Rule[]
  /** Notice changes as they happen. Without it, when somebody looks. */
  readonly watch?: boolean
  /** Half of a save is not drift: how long a path must be quiet, 100 ms. */
  readonly settleMs?: number
  /** Scan everything this often, for what a lost watch event missed. */
  readonly scanEveryMs?: number
  readonly clock?: Clock
  /** Of the scan that opening does. */
  readonly onProgress?: ScanOptions['onProgress']
  readonly signal?: AbortSignal
  /** What graph and disk have come to disagree about. */
  readonly onFindings?: (news: readonly FindingRecord[]) => void
  /** What rules and decisions have done about it. */
  readonly onReconciled?: (results: readonly Reconciled[]) => void
  /** What went wrong where nobody is waiting for an answer, or in one who is told. */
  readonly onError?: (error: unknown) => void
}

/** A folder and a context's graph, held against each other. */
export interface Tracker {
  /** The folder, by its real path. */
  readonly root: string
  /** Looks at everything: finds what no watching told. */
  scan(options?: ScanOptions): Promise<ScanReport>
  /** Looks at these paths now. */
  look(paths: readonly string[]): Promise<readonly FindingRecord[]>
  /** What graph and disk disagree about, as far as it has been noticed, by path. */
  findings(): readonly FindingRecord[]
  /** The diff of a finding, also of one too long to lie in the graph. */
  diff(finding: FindingRecord): Promise<string | undefined>
  /** Settles findings, named by path or id, by a strategy of the caller's choice. Throws NotFound where there is none. */
  reconcile(
    which: readonly string[] | 'all',
    strategy: Strategy,
    by?: { actor?: string; reason?: string },
  ): Promise<readonly Reconciled[]>
  /** Do the ignore rules let us write there? They bind our own writer too. */
  mayWrite(path: string): Promise<boolean>
  /** Before a write: is what lies there something that the asker has not seen? As the file adapter asks it. */
  readonly staleCheck: (path: string, found: Digest | undefined, asker: Reader) => Promise<boolean>
  /** A run has read a file, and what it saw. */
  sawRead(path: string, digest: Digest, reader: Reader): Promise<void>
  /**
   * An action is about to change these paths: until it has said what it did, or has failed, they, and where links lead from them, are not looked at,
   * and others who are about to change them wait.
   */
  writing(paths: readonly string[]): Promise<Writing>
  /** What lies at these paths now, as far as they belong. */
  observed(paths: readonly string[]): Promise<ReadonlyMap<string, Observed | undefined>>
  /** Brings graph and files back to what they were, as a rollback planned it. */
  takeBack(taking: TakingBack): Promise<readonly TakenBack[]>
  /** Everything noticed so far has been dealt with, or waits for a store that is away. */
  idle(): Promise<void>
  /** Stops watching and waits for what is in hand. Safe to call twice. */
  close(): Promise<void>
}

export interface ScanReport extends Pick<Scan, 'files' | 'folders'> {
  readonly findings: readonly FindingRecord[]
  /** Files and folders that could not be read: of them, and of what lies below, nothing is said. */
  readonly unreadable: readonly { readonly path: string; readonly code: string }[]
}

/** Throws InvalidInput for options that cannot be meant. */
export function checkOptions(options: TrackOptions): void {
  const given: object = options
  refuseUnlessFit('track options', isObject(given) ? { root: '', ...given } : given, OPTIONS)
  selectFiles(options)
  policy(options.rules)
}

/** Throws InvalidInput for a way to scan that cannot be meant. */
export const checkScanOptions = (options: ScanOptions): void => refuseUnlessFit('scan options', options, SCAN_OPTIONS)

const OPTIONS: { readonly [O in keyof Required<TrackOptions>]: Field } = {
  root: { ...text, says: 'a folder' },
  keepBytes: amount,
  settleMs: timeout,
  scanEveryMs: wholeFrom(1),
  watch: flag,
  clock,
  signal,
  ...{ onProgress: method, onFindings: method, onReconciled: method, onError: method },
  ...{ rules: anything, include: anything, exclude: anything, ignoreFiles: anything }, // they are looked at where they are read
}

const SCAN_OPTIONS: { readonly [O in keyof Required<ScanOptions>]: Field } = {
  signal,
  onProgress: method,
  thorough: flag,
  folders: list,
}
