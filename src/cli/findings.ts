import type { Reconciled } from '../drift/drift.ts'
import type { FindingRecord } from '../psg/change.ts'
import { table } from './io.ts'
import { approving } from './remedy.ts'

/** Findings for people, one line each. */
export const toldFindings = (findings: readonly FindingRecord[]): string =>
  findings.length === 0
    ? 'graph and files agree'
    : table(
        findings.map(({ finding_id, what, path, from, severity }) => [
          finding_id,
          severity,
          what,
          from === undefined ? path : `${from} -> ${path}`,
        ]),
      )

/** What became of them, one line each. */
export const toldResults = (results: readonly Reconciled[]): string => table(results.map(cells))

const cells = ({ finding: { path, confirm_id }, outcome, reason = '' }: Reconciled): readonly string[] =>
  outcome === 'asked' && confirm_id !== undefined
    ? [outcome, path, [...(reason === '' ? [] : [reason]), `${approving(confirm_id)}, or reject`].join('; ')]
    : [outcome, path, reason]
