import type { FindingRecord } from '../psg/change.ts'
import { table } from './io.ts'

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
