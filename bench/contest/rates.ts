import type { Measured } from '../contestants/host.ts'
import { type Bar, figure, median, type Plot, type Table } from '../report.ts'
import type { Score } from './contest.ts'

export interface RateTable {
  readonly rows: Table['rows']
  readonly plot: Plot
}

/** A row per contestant: how many a second, how far apart the rounds were, what each cost in CPU time of its process, and beside the bare client. */
export function rates(scores: readonly Score[], count: number, unit: string, more: Columns = () => ({})): RateTable {
  const raw = median(ratesOf(scores.find(({ name }) => name === 'raw')?.rounds ?? [], count))
  const rows = scores.map((score) => [score.name, rowOf(score, count, unit, raw, more)] as const)
  return { rows: Object.fromEntries(rows), plot: { unit: `${unit} per second`, bars: scores.flatMap(barOf(count)) } }
}

/** Further columns of a contestant that finished. */
export type Columns = (rounds: readonly Measured[]) => { readonly [column: string]: string | number }

function rowOf(score: Score, count: number, unit: string, raw: number, more: Columns) {
  const { rounds, failed, version, durability } = score
  if (rounds.length === 0) return { [`${unit}/s`]: `failed: ${failed ?? 'no round'}`, version }
  const each = ratesOf(rounds, count)
  return {
    [`${unit}/s`]: figure(median(each)),
    'slowest..fastest': `${figure(Math.min(...each))}..${figure(Math.max(...each))}`,
    ...(Number.isFinite(raw) && { 'of raw': figure(median(each) / raw) }),
    [`CPU µs/${unit.replace(/s$/, '')}`]: figure(median(rounds.map(({ cpuMs }) => (cpuMs * 1000) / count))),
    ...more(rounds),
    rounds: failed === undefined ? rounds.length : `${rounds.length}, then failed: ${failed}`,
    version,
    durability,
  }
}

const ratesOf = (rounds: readonly Measured[], count: number): number[] =>
  rounds.map(({ wallMs }) => (count / wallMs) * 1000)

const barOf =
  (count: number) =>
  ({ name, rounds }: Score): Bar[] => {
    if (rounds.length === 0) return []
    const each = ratesOf(rounds, count)
    const kind = name.startsWith('ours') ? 'ours' : name.startsWith('raw') || name === 'floor' ? 'limit' : 'peer'
    return [{ label: name, value: median(each), spread: [Math.min(...each), Math.max(...each)], kind }]
  }
