import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Table } from '../report.ts'
import { barsSvg } from './bars.ts'
import type { Machine } from './settings.ts'

/** What one benchmark came to the last time it ran, and what the machine was like then. */
export interface Outcome {
  readonly at: string
  readonly machine: Machine
  /** Of the last minute, before and after. */
  readonly load: readonly [number, number]
  readonly rounds: number
  readonly seconds: number
  /** Why it did not end well; its tables are those it had told by then. */
  readonly failed?: string
  readonly tables: readonly Table[]
}
export type Results = { readonly [benchmark: string]: Outcome }

const bench = join(import.meta.dirname, '..')
const file = join(bench, 'results.json')

export function readResults(): Results {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
}

/** Keeps what other benchmarks came to; the README's tables and the plots are made anew from all of it. */
export function writeResults(results: Results): void {
  const sorted = Object.fromEntries(Object.entries(results).sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`)
  mkdirSync(join(bench, 'plots'), { recursive: true })
  for (const { tables } of Object.values(sorted))
    for (const { title, plot } of tables)
      if (plot && plot.bars.length > 0) writeFileSync(join(bench, plotOf(title)), barsSvg(title, plot))
  const readme = join(bench, 'README.md')
  writeFileSync(readme, between(readFileSync(readme, 'utf8'), markdown(sorted)))
}

const BEGIN = '<!-- results: written by npm run bench -->'
const END = '<!-- end of results -->'

function between(text: string, inner: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`bench/README.md has no "${BEGIN}" … "${END}"`)
  return `${text.slice(0, from + BEGIN.length)}\n${inner}\n${text.slice(to)}`
}

function markdown(results: Results): string {
  return Object.entries(results)
    .map(([name, outcome]) => [`### ${name}`, about(outcome), ...outcome.tables.map(tableOf)].join('\n\n'))
    .join('\n\n')
}

function about({ at, machine, load, rounds, seconds, failed }: Outcome): string {
  const { node, platform, processor, cores, memoryGb } = machine
  const here = `${processor}, ${cores} cores, ${memoryGb} GB, ${platform}, Node ${node.slice(1)}`
  const run = `${at.slice(0, 16).replace('T', ' ')} UTC, ${Math.round(seconds)} s, up to ${rounds} rounds, load average ${load[0]} before and ${load[1]} after`
  return `${here}; ${run}.${failed === undefined ? '' : `\n\n**It did not end well: ${failed}**`}`
}

function tableOf({ title, note, rows, plot }: Table): string {
  const columns = [...new Set(Object.values(rows).flatMap((row) => Object.keys(row)))]
  const line = (cells: readonly (string | number | undefined)[]) =>
    `| ${cells.map((cell) => String(cell ?? '').replaceAll('|', '\\|')).join(' | ')} |`
  return [
    `**${title}**${note === undefined ? '' : `: ${note}`}`,
    '',
    line(['', ...columns]),
    line(['---', ...columns.map(() => '---')]),
    ...Object.entries(rows).map(([name, row]) => line([name, ...columns.map((column) => row[column])])),
    ...(plot && plot.bars.length > 0 ? ['', `![${title}](${plotOf(title)})`] : []),
  ].join('\n')
}

function plotOf(title: string): string {
  return `plots/${title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')}.svg`
}
