import picomatch from 'picomatch'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { type Field, needed, oneOf, problemsIn, refuseUnlessFit } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { A_PATTERN, fromRoot } from '../protocol/path-pattern.ts'
import { problem } from '../protocol/problem.ts'
import type { FindingRecord } from '../psg/change.ts'
import { GLOB } from './select.ts'

/** How a disagreement is settled: the graph's side, the disk's, a person's decision, or both sides' changes together. */
export type Strategy = 'graph' | 'files' | 'ask' | 'merge'
export type Severity = FindingRecord['severity']

/** What to do about the paths that a pattern matches. The first rule that matches counts. */
export interface Rule {
  readonly match: string
  readonly strategy?: Strategy
  readonly severity?: Severity
  /** Of `ask`: what an approval stands for (`files` when absent), and what a rejection does (`leave`: both stay as they are). */
  readonly approved?: Exclude<Strategy, 'ask'>
  readonly rejected?: Exclude<Strategy, 'ask'> | 'leave'
}

export interface Verdict {
  readonly strategy: Strategy
  readonly severity: Severity
  readonly approved: Exclude<Strategy, 'ask'>
  readonly rejected: Exclude<Strategy, 'ask'> | 'leave'
}

/** Who says what about which finding. Nothing is overwritten without a rule: what none matches is asked. */
export function policy(rules: readonly Rule[] = []): (finding: Pick<FindingRecord, 'path' | 'what'>) => Verdict {
  checkRules(rules)
  const matchers = rules.map((rule) => ({ rule, matches: picomatch(rule.match, GLOB) }))
  return ({ path, what }) => {
    const rule = matchers.find(({ matches }) => matches(path))?.rule
    return {
      strategy: rule?.strategy ?? 'ask',
      severity: rule?.severity ?? SEVERITIES[what],
      approved: rule?.approved ?? 'files',
      rejected: rule?.rejected ?? 'leave',
    }
  }
}

const SEVERITIES: { readonly [W in FindingRecord['what']]: Severity } = {
  added: 'low',
  mode_changed: 'low',
  modified: 'medium',
  renamed: 'medium',
  deleted: 'high',
  type_changed: 'high',
  invariant: 'high',
}

const SIDES = ['graph', 'files', 'merge']
const STRATEGIES = [...SIDES, 'ask']
export const aSeverity = oneOf('low', 'medium', 'high', 'critical')

const RULE: { readonly [F in keyof Required<Rule>]: Field } = {
  match: A_PATTERN,
  strategy: oneOf(...STRATEGIES),
  severity: aSeverity,
  approved: oneOf(...SIDES),
  rejected: oneOf(...SIDES, 'leave'),
}

/** Throws InvalidInput for a word that is no strategy. */
export const checkStrategy = (strategy: unknown): void =>
  refuseUnlessFit('strategy', { strategy }, { strategy: needed(oneOf(...STRATEGIES)) })

function checkRules(rules: unknown): void {
  const problems: readonly Problem[] = Array.isArray(rules)
    ? rules.flatMap((rule, i) => [
        ...problemsIn(isObject(rule) ? { match: '', ...rule } : rule, RULE, `rules[${i}]`),
        ...hiddenBehind(rules.slice(0, i), rule, `rules[${i}].match`),
      ])
    : [problem('rules', 'type', 'must be a list', rules)]
  if (problems.length > 0) throw new InvalidInput('drift rules', problems)
}

/** Who wrote `ask` behind a rule for everything would see files overwritten that they wanted to be asked about. */
function hiddenBehind(earlier: readonly unknown[], rule: unknown, path: string): readonly Problem[] {
  const matchOf = (each: unknown) => fromRoot(String(Object(each).match))
  const { match } = Object(rule)
  const before = earlier.findIndex((each) => EVERYTHING.has(matchOf(each)) || matchOf(each) === matchOf(rule))
  if (before < 0 || match === undefined) return []
  return [{ path, rule: 'reachable', message: `never counts: rules[${before}] matches all that it does`, found: match }]
}
const EVERYTHING = new Set(['**', '**/*', '**/**'])
