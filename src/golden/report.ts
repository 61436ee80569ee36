import { checkFormat, checkReport } from './check-options.ts'
import { complianceMarkdown } from './compliance.ts'
import type { GoldenReport } from './golden.ts'

export type ReportFormat = 'human' | 'json' | 'junit' | 'tap' | 'compliance'

export const REPORTS: readonly ReportFormat[] = ['human', 'json', 'junit', 'tap', 'compliance']

/** A report as text. */
export function report(golden: GoldenReport, format: ReportFormat): string {
  checkReport(golden)
  checkFormat(format, REPORTS)
  switch (format) {
    case 'json':
      return JSON.stringify(golden)
    case 'junit':
      return junit(golden)
    case 'tap':
      return tap(golden)
    case 'compliance':
      return complianceMarkdown(golden)
    case 'human':
      return human(golden)
    default:
      format satisfies never
      return ''
  }
}

function human({ results, totals }: GoldenReport): string {
  const told = results
    .filter(({ status }) => status !== 'passed')
    .map(({ backend, flow, status, reason }) => `${status} ${backend} ${flow}: ${reason}`)
  const sums = Object.entries(totals).map(
    ([backend, { passed, failed, skipped }]) =>
      `${backend}: ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
  )
  return [...told, ...sums].join('\n')
}

function tap({ results }: GoldenReport): string {
  const lines = results.map(({ backend, flow, status, reason }, i) => {
    const head = `${status === 'failed' ? 'not ok' : 'ok'} ${i + 1} - ${backend} ${flow}`
    return status === 'skipped'
      ? `${head} # SKIP ${oneLine(reason)}`
      : status === 'failed'
        ? `${head}\n  ---\n  message: ${JSON.stringify(reason)}\n  ...`
        : head
  })
  return ['TAP version 13', `1..${results.length}`, ...lines].join('\n')
}

const oneLine = (text = ''): string => text.replaceAll(/\s+/g, ' ')

function junit({ driver, results }: GoldenReport): string {
  const cases = results.map(({ backend, flow, status, reason, duration_ms }) => {
    const inner =
      status === 'failed'
        ? `<failure message="${escaped(reason ?? '')}"/>`
        : status === 'skipped'
          ? `<skipped message="${escaped(reason ?? '')}"/>`
          : ''
    return `    <testcase classname="${escaped(backend)}" name="${escaped(flow)}" time="${duration_ms / 1000}">${inner}</testcase>`
  })
  const failures = results.filter(({ status }) => status === 'failed').length
  const skipped = results.filter(({ status }) => status === 'skipped').length
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<testsuites>',
    `  <testsuite name="golden flows on ${escaped(driver)}" tests="${results.length}" failures="${failures}" skipped="${skipped}">`,
    ...cases,
    '  </testsuite>',
    '</testsuites>',
  ].join('\n')
}

const ENTITIES: { readonly [char: string]: string } = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
}
const escaped = (text: string): string =>
  text
    .replace(NOT_IN_XML, '\ufffd')
    .replace(/[&<>"']/g, (char) => ENTITIES[char]!)
    .replaceAll('\n', '&#10;')
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what XML cannot hold
const NOT_IN_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g
