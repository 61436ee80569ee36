import { expect, it } from 'vitest'
import { notKnown, problemsIn, text, time } from '../../src/protocol/fields.ts'

it.each([
  ['2026-02-28T23:59:59Z', true],
  ['2024-02-29T00:00:00.123456+02:00', true],
  ['0099-12-31T00:00:00-11:30', true],
  ['2026-02-29T00:00:00Z', false],
  ['2026-06-31T00:00:00Z', false],
  ['2026-13-01T00:00:00Z', false],
  ['2026-01-01T24:00:00Z', false],
  ['2026-01-01T00:00:00', false],
  ['2026-01-01', false],
])('takes a time only where there is a day and an hour like that: %s', (value, fits) => {
  expect(time.fits(value)).toBe(fits)
})

it('suggests the known name that is meant, and does not measure one that cannot be', () => {
  const saidOf = (name: string) => problemsIn({ [name]: 1 }, { settle_ms: text, watch: text }, '')[0]?.message
  expect(saidOf('wach')).toBe('is not known; did you mean watch?')
  expect(saidOf('SETTLE_MS')).toBe('is not known; did you mean settle_ms?')
  expect(saidOf('x'.repeat(10_000_000))).toBe('is not known; known are settle_ms, watch')
  expect(notKnown('b', ['a'])).toBe('is not known')
  expect(notKnown('A', ['a'])).toBe('is not known; did you mean a?')
  expect(notKnown('funcs', ['bus'])).toBe('is not known')
  expect(notKnown('vls', ['vsl'])).toBe('is not known; did you mean vsl?')
  const long = 'x'.repeat(100_000)
  expect(notKnown(`${long}y`, [long])).toBe('is not known')
})

it.each([Promise.resolve({ watch: 'x' }), new Map([['watch', 'x']]), new Date(), new (class Settings {})()])(
  'takes what is read by other means than its members for no options: %s',
  (value) => {
    const problem = { path: '', rule: 'type', message: 'must be a plain object' }
    expect(problemsIn(value, { watch: text }, '')).toMatchObject([problem])
    expect(problemsIn({ options: value }, { options: { watch: text } }, '')).toMatchObject([
      { ...problem, path: 'options' },
    ])
  },
)

it('tells a hundred of a great many problems', () => {
  const many = Object.fromEntries(Array.from({ length: 300_000 }, (_, i) => [`k${i}`, 1]))
  expect(problemsIn({ options: many }, { options: { deadline: text } }, '')).toHaveLength(100)
})
