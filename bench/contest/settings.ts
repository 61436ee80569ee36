import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'

/** Handed down by `npm run bench`; a benchmark that is run by itself has the defaults. */
export const quick = process.env.MPLP_BENCH_QUICK === '1'
export const rounds = Number(process.env.MPLP_BENCH_ROUNDS ?? (quick ? 2 : 5))

/** A contestant that has taken this long over its rounds has no further one; the row tells how many it came to. */
export const BUDGET_MS = quick ? 2_000 : 5_000
/** It warms up so often and so long before each round, unless it is slow. */
export const WARM_UPS = 8
export const LEAST_WARM_MS = quick ? 500 : 3_000
export const MOST_WARM_MS = quick ? 2_000 : 6_000
/** Longer than this over one piece of work is a failure. */
export const PATIENCE_MS = quick ? 60_000 : 120_000

export interface Machine {
  readonly node: string
  readonly platform: string
  readonly processor: string
  readonly cores: number
  readonly memoryGb: number
}

export function machine(): Machine {
  return {
    node: process.version,
    platform: `${process.platform} ${release().split('-')[0]} ${process.arch}`,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
  }
}

export const load = (): number => Math.round(loadavg()[0]! * 10) / 10
