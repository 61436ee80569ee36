import { fileURLToPath } from 'node:url'
import { eachOf } from '../protocol/each.ts'
import { checkGolden } from './check-options.ts'
import type { Driver } from './driver.ts'
import { type GoldenFlow, readFlows } from './flow.ts'
import { type FlowResult, runFlow } from './run-flow.ts'

export type { DocumentKind } from '../psg/document.ts'
export { type ComplianceLine, compliance, complianceMarkdown } from './compliance.ts'
export type {
  Answer,
  Answers,
  Capability,
  Driver,
  DriverOptions,
  FlowChange,
  FlowDecision,
  FlowFinding,
  Outcome,
  Session,
} from './driver.ts'
export { type GoldenFlow, readFlows } from './flow.ts'
export type { Act } from './flow-script.ts'
export { type FreshStore, inMemory, type OwnDriverOptions, ownDriver } from './own-driver.ts'
export { exportPack, type Pack, type PackOptions } from './pack.ts'
export { REPORTS, type ReportFormat, report } from './report.ts'
export { type FlowOptions, type FlowResult, runFlow } from './run-flow.ts'
export { type PackFinding, type PackVerdict, verifyPack } from './verify-pack.ts'

/** Where the flows of this package lie. */
export const OWN_FLOWS = fileURLToPath(new URL('../../golden-flows', import.meta.url))

export interface GoldenOptions {
  /** A folder of `<area>/<flow>/` folders, or flows already read; those of this package when absent. */
  readonly flows?: string | readonly GoldenFlow[]
  readonly driver: Driver
  readonly backends: readonly string[]
  /** Only flows whose name, area or a rule contains this. */
  readonly filter?: string
  /** How many at once: two per backend, at least 4, when absent. */
  readonly concurrency?: number
  /** A flow that takes longer has failed: 60 s. */
  readonly limitMs?: number
  readonly onResult?: (result: FlowResult, done: number, all: number) => void
  readonly signal?: AbortSignal
}

export interface GoldenReport {
  readonly driver: string
  readonly results: readonly FlowResult[]
  /** Everything that was asked for has run, and nothing has failed. */
  readonly passed: boolean
  readonly totals: {
    readonly [backend: string]: { readonly passed: number; readonly failed: number; readonly skipped: number }
  }
}

/** Runs every flow on every backend. A bad flow is refused before anything runs. */
export async function runGolden(options: GoldenOptions): Promise<GoldenReport> {
  checkGolden(options)
  const { flows: given = OWN_FLOWS } = options
  const backends = [...new Set(options.backends)]
  const all = typeof given === 'string' ? await readFlows(given) : given
  const flows = all.filter((flow) => matches(flow, options.filter))
  // Flow by flow, so that stores of different kinds are waited for at the same time.
  const work = flows.flatMap((flow) => backends.map((backend) => ({ flow, backend })))
  const results: FlowResult[] = []
  const limit = options.limitMs === undefined ? {} : { limitMs: options.limitMs }
  await eachOf(work, options.concurrency ?? Math.max(4, 2 * backends.length), async ({ flow, backend }) => {
    if (options.signal?.aborted) return
    const result = await runFlow(flow, options.driver, backend, limit)
    results.push(result)
    options.onResult?.(result, results.length, work.length)
  })
  results.sort((a, b) => (order(a) < order(b) ? -1 : 1))
  const count = (backend: string, status: FlowResult['status']) =>
    results.filter((result) => result.backend === backend && result.status === status).length
  const totals = Object.fromEntries(
    backends.map((backend) => [
      backend,
      { passed: count(backend, 'passed'), failed: count(backend, 'failed'), skipped: count(backend, 'skipped') },
    ]),
  )
  return {
    driver: options.driver.name,
    results,
    passed: results.length > 0 && results.length === work.length && results.every(({ status }) => status !== 'failed'),
    totals,
  }
}

const matches = (flow: GoldenFlow, filter: string | undefined): boolean =>
  filter === undefined || flow.name.includes(filter) || flow.rules.some((rule) => rule.includes(filter))

const order = ({ backend, flow }: FlowResult): string => `${backend} ${flow}`
