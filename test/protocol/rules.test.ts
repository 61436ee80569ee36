import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { EVERY, eachPlace, parsePath } from '../../src/protocol/paths.ts'
import { complaint, parseRule } from '../../src/protocol/rules.ts'
import { ID } from './samples.ts'

describe('a path', () => {
  it('is made of names, [n] and [*]', () => {
    expect(parsePath('plan_id')).toEqual(['plan_id'])
    expect(parsePath('meta.tags')).toEqual(['meta', 'tags'])
    expect(parsePath('steps[*].step_id')).toEqual(['steps', EVERY, 'step_id'])
    expect(parsePath('a[0][*][12].b')).toEqual(['a', 0, EVERY, 12, 'b'])
  })

  it.each([
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    'a[',
    'a]',
    'a[]',
    'a[x]',
    'a[-1]',
    'a[1.5]',
    'a["b"]',
    'a[?(@.b)]',
    '[0]',
    'a b',
    'a[*]b',
  ])('is not %j', (text) => {
    expect(() => parsePath(text)).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ rule: 'path_grammar' })] }),
    )
  })

  it('leads to every place it fits, each with its own name', () => {
    const plan = { steps: [{ id: 'a' }, {}, { id: 'c' }] }
    expect(placesAt(plan, 'steps[*].id')).toEqual([
      { at: ['steps', 0, 'id'], value: 'a' },
      { at: ['steps', 1, 'id'], value: undefined },
      { at: ['steps', 2, 'id'], value: 'c' },
    ])
    expect(placesAt(plan, 'steps[2].id')).toEqual([{ at: ['steps', 2, 'id'], value: 'c' }])
  })

  it('leads nowhere through arrays by name, objects by number, or what an object inherits', () => {
    const value = (path: string, root: unknown) => placesAt(root, path).map((place) => place.value)
    expect(value('a.length', { a: [1] })).toEqual([undefined])
    expect(value('a[0]', { a: { 0: 1 } })).toEqual([undefined])
    expect(value('a[*]', { a: { 0: 1 } })).toEqual([])
    expect(value('a[*].b', { a: [] })).toEqual([])
    expect(value('toString', {})).toEqual([undefined])
    expect(value('a.b', null)).toEqual([undefined])
    expect(value('a', { a: null })).toEqual([null])
  })
})

function placesAt(root: unknown, path: string) {
  const places: { readonly at: readonly (string | number)[]; readonly value: unknown }[] = []
  eachPlace(root, parsePath(path), (value, at) => void places.push({ at: [...at], value }))
  return places
}

describe('a rule', () => {
  const root = { plan: { plan_id: 'p', steps: [{ id: 1 }] } }
  const holds = (rule: string, value: unknown, subject: unknown = {}) =>
    complaint(parseRule(rule), value, subject, root) === undefined

  it.each([
    ['uuid-v4', [ID, ID.toUpperCase()], ['', 'x', '123e4567-e89b-12d3-a456-426614174000', null, 1, undefined]],
    ['non-empty-string', ['a', ' a '], ['', ' ', '\n\t', null, 1, [], undefined]],
    ['exists', [0, '', false, [], {}], [null, undefined]],
    ['iso-datetime', ['2026-01-01', '2026-01-01T00:00:00', '2026-01-01T00:00:00Z'], ['', 'soon', 0, null, undefined]],
    ['positive-integer', [1, 7], [0, -1, 1.5, '1', null, Number.NaN, undefined]],
    ['optional-string', ['', 'a', undefined], [null, 1, []]],
    ['eq("1.0.0")', ['1.0.0'], ['1.0', 1, null, undefined, '"1.0.0"']],
    ['eq(plan.plan_id)', ['p'], ['q', null, undefined]],
    ['eq(plan.steps[0].id)', [1], ['1', 2]],
    ['eq(plan.nothing)', [], ['x', undefined, null]],
    ['min-length(2)', ['ab', [1, 2], [1, 2, 3]], ['a', [], [1], 2, {}, null, undefined]],
    ['min-length(0)', ['', []], [0, null]],
    ['enum(a, b ,c)', ['a', 'b', 'c'], ['d', '', 'a, b', 0, null, undefined]],
    ['one-of(["a",1,null])', ['a', 1, null], ['1', 'b', undefined, []]],
  ])('%s holds for some and not for others', (rule, good, bad) => {
    for (const value of good) expect(holds(rule, value), JSON.stringify(value)).toBe(true)
    for (const value of bad) expect(holds(rule, value), JSON.stringify(value)).toBe(false)
  })

  it('with a condition holds wherever the condition is not met', () => {
    const rule = 'if(status == "rejected", non-empty-string)'
    expect(holds(rule, undefined, { status: 'approved' })).toBe(true)
    expect(holds(rule, undefined, { status: 'rejected' })).toBe(false)
    expect(holds(rule, 'because', { status: 'rejected' })).toBe(true)
    expect(holds('if(status != "draft", exists)', undefined, { status: 'draft' })).toBe(true)
    expect(holds('if(status != "draft", exists)', undefined, {})).toBe(false)
    expect(holds('if(exists(a.b), enum(x))', 'y', { a: { b: 0 } })).toBe(false)
    expect(holds('if(exists(a.b), enum(x))', 'y', { a: { b: null } })).toBe(true)
    expect(holds('if(n == 3, one-of(["a,b", "(c"]))', '(c', { n: 3 })).toBe(true)
    expect(holds('if(a == "x, y", if(b == true, exists))', null, { a: 'x, y', b: true })).toBe(false)
  })

  it.each([
    ...[
      '',
      'uuid',
      'uuid-v5',
      'UUID-v4',
      'regex(x)',
      'pattern',
      'object-required',
      'exists(a)',
      'uuid-v4()',
      'enum',
      'enum()',
      'eq',
      'eq()',
    ],
    ...[
      'eq("open)',
      'eq(a[*].b)',
      'eq(a[)',
      'min-length',
      'min-length()',
      'min-length(-1)',
      'min-length(x)',
      'min-length(1.5)',
    ],
    ...[
      'one-of',
      'one-of()',
      'one-of(a,b)',
      'one-of("a")',
      'if',
      'if()',
      'if(status, exists)',
      'if(status == "a")',
      'if(status = "a", exists)',
    ],
    ...[
      'if(status == a, exists)',
      'if(status == "a", nonsense)',
      'if(a[*] == 1, exists)',
      'non-empty-string and more',
      'a b',
    ],
  ])('is not %j: unknown rules are errors, they do not pass', (text) => {
    expect(() => parseRule(text)).toThrow(InvalidInput)
  })

  it('survives any text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'if(eq,"a)[]*.=!  \\') })), (text) => {
        for (const parse of [parseRule, parsePath]) {
          try {
            parse(text)
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidInput)
          }
        }
      }),
    )
  })

  it('may be nested, but not so deep that the stack is used up', () => {
    const nested = (depth: number) => `${'if(a == 1, '.repeat(depth)}exists${')'.repeat(depth)}`
    expect(parseRule(nested(100))).toMatchObject({ name: 'if', rule: { name: 'if' } })
    expect(() => parseRule(nested(100_000))).toThrow(InvalidInput)
  })

  it('is text, and so is a path', () => {
    for (const odd of [undefined, null, 7, {}, ['exists']] as never[]) {
      expect(() => parseRule(odd)).toThrow(InvalidInput)
      expect(() => parsePath(odd)).toThrow(InvalidInput)
    }
  })
})
