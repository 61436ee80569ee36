import { checkReport } from './check-options.ts'
import type { GoldenReport } from './golden.ts'
import type { FlowResult } from './run-flow.ts'

/** One line of the protocol's L3 checklist, and the flows that prove it. */
interface Line {
  readonly says: string
  readonly level: 'must' | 'recommended'
  readonly proves: (flow: string) => boolean
}

const named =
  (...names: readonly string[]) =>
  (flow: string) =>
    names.some((name) => flow.startsWith(name))

const CHECKLIST: readonly Line[] = [
  {
    says: 'Values are kept and come back as they were (VSL)',
    level: 'must',
    proves: named('conformance/', 'execution/bare-store'),
  },
  {
    says: 'Actions are executed and their outcomes recorded (AEL)',
    level: 'must',
    proves: named('execution/happy-path', 'execution/tools', 'execution/llm', 'execution/failure', 'execution/retry'),
  },
  {
    says: 'References resolve',
    level: 'must',
    proves: named('integrity/dangling', 'integrity/segment-parent', 'integrity/root-span'),
  },
  { says: 'Plans are acyclic', level: 'must', proves: named('integrity/cycle') },
  {
    says: 'History is written once',
    level: 'must',
    proves: named('integrity/write-once', 'integrity/delete', 'integrity/fixed-ids'),
  },
  { says: 'pipeline_stage on every plan and step status change', level: 'must', proves: named('execution/happy-path') },
  { says: 'graph_update on every change of the graph', level: 'must', proves: named('execution/happy-path') },
  { says: 'Invalid transitions are rejected', level: 'must', proves: named('lifecycle/') },
  {
    says: 'No plan runs without approval',
    level: 'must',
    proves: named('integrity/no-start-without-approval', 'execution/confirm-required', 'execution/approval'),
  },
  {
    says: 'Single-agent profile',
    level: 'must',
    proves: named('single-agent/', 'execution/happy-path', 'execution/diamond', 'execution/large-plan'),
  },
  { says: 'Rollback or compensation', level: 'recommended', proves: named('execution/compensation', 'rollback/') },
  {
    says: 'Recovery after a crash',
    level: 'recommended',
    proves: named('execution/crash-and-resume', 'execution/approval-over-crash', 'execution/two-owners'),
  },
  { says: 'Drift between graph and files', level: 'recommended', proves: named('drift/') },
  { says: 'Multi-agent profile', level: 'recommended', proves: named('multi-agent/') },
]

export interface ComplianceLine {
  readonly says: string
  readonly level: 'must' | 'recommended'
  readonly flows: readonly string[]
  /** `not shown` where no flow of the run speaks of it. */
  readonly result: { readonly [backend: string]: 'passed' | 'failed' | 'not shown' }
}

/** The protocol's L3 checklist with, per line, the flows that prove it and what came of them on each backend. */
export function compliance(report: GoldenReport): readonly ComplianceLine[] {
  checkReport(report)
  const backends = Object.keys(report.totals)
  return CHECKLIST.map(({ says, level, proves }) => {
    const speaking = report.results.filter(({ flow }) => proves(flow))
    return {
      says,
      level,
      flows: [...new Set(speaking.map(({ flow }) => flow))],
      result: Object.fromEntries(
        backends.map((backend) => [backend, verdict(speaking.filter((result) => result.backend === backend))]),
      ),
    }
  })
}

/** The same as a Markdown table. */
export function complianceMarkdown(report: GoldenReport): string {
  const found = compliance(report)
  const backends = Object.keys(report.totals)
  const lines = found.map(
    ({ says, level, flows, result }) =>
      `| ${says} | ${level} | ${backends.map((backend) => result[backend]).join(' | ')} | ${flows.length} |`,
  )
  return [
    `# ${report.driver}, checked against MPLP v1.0 by golden flows`,
    '',
    `| | level | ${backends.join(' | ')} | flows |`,
    `|---|---|${backends.map(() => '---|').join('')}---|`,
    ...lines,
  ].join('\n')
}

function verdict(results: readonly FlowResult[]): 'passed' | 'failed' | 'not shown' {
  const ran = results.filter(({ status }) => status !== 'skipped')
  if (ran.length === 0) return 'not shown'
  return ran.every(({ status }) => status === 'passed') ? 'passed' : 'failed'
}
