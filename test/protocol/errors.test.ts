import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as errors from '../../src/protocol/errors.ts'
import { under } from '../../src/protocol/under.ts'
import { problemOf } from '../../src/server/problem.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/errors.md'), 'utf8')

/** Every class that extends the base or one that does, wherever it stands, with the codes it may have: they are literals in the source, which makes them stable. */
const classes = (() => {
  const texts = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(join(root, 'src', path), 'utf8'))
  const found = texts.flatMap((text) => [
    ...text.matchAll(/^(?:export )?class (\w+) extends (\w+) \{\n([\s\S]*?)^\}/gm),
  ])
  const ours = new Map([['MplpError', '']])
  for (let before = 0; before < ours.size; ) {
    before = ours.size
    for (const [, name, base, body] of found) if (ours.has(base!)) ours.set(name!, body!)
  }
  ours.delete('MplpError')
  return ours
})()
/** The literals of a union. */
const unionIn = (path: string, name: string): string[] => {
  const [, text] = new RegExp(`type ${name} =((?:\\n {2}\\| '?\\w+'?)+)`).exec(readFileSync(join(root, path), 'utf8'))!
  return [...text!.matchAll(/'(\w+)'/g)].map(([, code]) => code!)
}
const actionCodes = unionIn('src/protocol/errors.ts', 'ActionErrorCode')
const codes = [
  ...[...classes.values()]
    .flatMap((body) => [...body.matchAll(/readonly code(?: = |: )('[^;\n]*')/g)])
    .flatMap(([, text]) => [...text!.matchAll(/'(\w+)'/g)].map(([, code]) => code!)),
  ...actionCodes,
]

describe('docs/errors.md', () => {
  it('has a section that says what to do for every code, and for nothing else', () => {
    const sections = [...page.matchAll(/^## (\w+)\n(.+)/gm)].map(([, code]) => code)
    expect(sections.sort()).toEqual([...codes].sort())
  })

  it('lists every code and class', () => {
    const rows = [...page.matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) \| `(\w+)` /gm)]
    expect(rows.map(([, code]) => code).sort()).toEqual([...codes].sort())
    expect(rows.every(([, code, anchor]) => code === anchor)).toBe(true)
    expect(new Set(rows.map(([, , , name]) => name))).toEqual(new Set(classes.keys()))
    expect([...classes.keys()]).toEqual(
      expect.arrayContaining(Object.keys(errors).filter((name) => name !== 'MplpError')),
    )
  })

  it('lists every code that the compiler knows of', () => {
    expect([...unionIn('src/protocol/errors.ts', 'ErrorCode'), ...actionCodes].sort()).toEqual([...codes].sort())
  })

  it('lists every code of a run of its own', () => {
    const section = page.slice(
      page.indexOf('## In the result of a run\n'),
      page.indexOf('## In the result of a flow\n'),
    )
    const cells = [...section.matchAll(/^\| (`.*?) \|/gm)].map(([, cell]) => cell!)
    const rows = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code!))
    const own = rows.filter((code) => !codes.includes(code))
    expect(own.sort()).toEqual(unionIn('src/protocol/run-error.ts', 'RunErrorCode').sort())
  })

  it('lists every code of a flow of its own', () => {
    const rows = [...page.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code!)
    const folder = join(root, 'src/orchestrator')
    const texts = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts'))
      .map((path) => readFileSync(join(folder, path), 'utf8'))
    const own = texts.flatMap((text) => [...text.matchAll(/new FlowFailure\(\s*'([A-Z_]+)'/g)].map(([, code]) => code!))
    expect(rows.sort()).toEqual([...new Set(own)].sort())
  })
})

describe('an error', () => {
  const problems = Array.from({ length: 7 }, (_, n) => ({
    path: n === 0 ? '' : `p${n}`,
    rule: 'type',
    message: 'is odd',
  }))
  const error = new errors.InvalidInput('plan', problems, { cause: 'why' })

  it('is known by class, name and code', () => {
    expect(error).toBeInstanceOf(errors.MplpError)
    expect([error.name, error.code, error.retryable, error.cause]).toEqual([
      'InvalidInput',
      'invalid_input',
      false,
      'why',
    ])
  })

  it('says the first problems and how many more there are', () => {
    expect(error.message).toBe('plan is not valid: it is odd; p1 is odd; p2 is odd; p3 is odd; p4 is odd; and 2 more')
    expect(error.problems).toHaveLength(7)
  })

  const odd = (path: string) => ({ path, rule: 'type', message: 'is odd' })
  const many = Array.from({ length: 300_000 }, (_, n) => odd(`p${n}`))

  it('names the first problems of very many, and says how many more there are, however often it is told anew', () => {
    const told = new errors.InvalidInput('flow', many)
    expect(told.problems.slice(0, 99)).toEqual(many.slice(0, 99))
    const more = { path: '', rule: 'more', message: 'is wrong in 299901 more places', found: '299901' }
    expect(told.problems.slice(99)).toEqual([more])
    expect(told.message).toMatch(/; and 299995 more$/)
    const again = new errors.InvalidInput('flow', under('flow', told.problems))
    expect(again.problems).toHaveLength(100)
    expect(again.message).toMatch(/; and 299995 more$/)
    expect(new errors.InvalidInput('flow', many.slice(0, 100)).problems).toEqual(many.slice(0, 100))
  })

  it('does not tell a long name for each of what is wrong below it', () => {
    const name = 'n'.repeat(70_000)
    const told = new errors.InvalidInput('flow', [odd(`${name}.a`), odd(`${name}.b`), odd(`${name}.c`)])
    expect(told.problems.map(({ path, rule }) => [path, rule])).toEqual([
      [`${name}.a`, 'type'],
      ['', 'more'],
    ])
    expect(told.message).toBe(`flow is not valid: ${name}.a is odd; it is wrong in 2 more places`)
  })

  it('breaks as many rules as it may: only who is told from outside gets the first of them', () => {
    const violations = many.map((one) => ({ ...one, node: 'n' }))
    const error = new errors.RuleViolation('g', violations)
    expect(error.violations).toHaveLength(300_000)
    expect(problemOf(error).violations).toHaveLength(100)
    expect(problemOf(error).violations?.at(-1)).toMatchObject({ rule: 'more', found: '299901' })
  })

  it('says why an outcome is unknown, where that is known, however often it was handed on', () => {
    const why = new errors.Unavailable('the disk', 'look at it')
    const once = new errors.OutcomeUnknown('g', { cause: why })
    const twice = new errors.OutcomeUnknown('h', { cause: once })
    expect(once.message).toBe('no reply to a write on g: it may have landed; the disk cannot be reached: look at it')
    expect(twice.message).toBe('no reply to a write on h: it may have landed; the disk cannot be reached: look at it')
    const untold = new errors.OutcomeUnknown('g', { cause: new Error('it may quote data') })
    expect(untold.message).toBe('no reply to a write on g: it may have landed')
  })

  it('is retryable where the same call may succeed later', () => {
    const made = [
      new errors.RevisionConflict('g', 1, 2),
      new errors.OutcomeUnknown('g'),
      new errors.Unavailable('redis', 'start it'),
      new errors.FellBehind('x', 'slow'),
      new errors.FencedOut('g', 1, 2),
      new errors.KeyExists('k'),
      new errors.Closed('x'),
    ]
    expect(made.map(({ retryable }) => retryable)).toEqual([true, true, true, true, false, false, false])
  })
})
