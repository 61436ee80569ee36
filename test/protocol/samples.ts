import { type Shape, shapes } from './facts.ts'

/** Values that a word of facts.ts accepts, and values it refuses with the rule that does so. */
interface Samples {
  readonly good: readonly unknown[]
  readonly bad: readonly (readonly [value: unknown, rule: string])[]
}

export const ID = '550e8400-e29b-41d4-a716-446655440000'
export const TIME = '2026-01-31T23:59:59.123456Z'

const notText: Samples['bad'] = [
  [null, 'type'],
  [1, 'type'],
  [true, 'type'],
  [['a'], 'type'],
  [{}, 'type'],
]
const notNumber: Samples['bad'] = [
  [null, 'type'],
  ['1', 'type'],
  [true, 'type'],
  [[], 'type'],
  [{}, 'type'],
]

const WORDS: Readonly<Record<string, Samples>> = {
  id: {
    good: [ID, 'ffffffff-ffff-4fff-bfff-ffffffffffff'],
    bad: [
      ...notText,
      ['', 'pattern'],
      [ID.toUpperCase(), 'pattern'],
      ['123e4567-e89b-12d3-a456-426614174000', 'pattern'],
      ['550e8400-e29b-41d4-c716-446655440000', 'pattern'],
      [`urn:uuid:${ID}`, 'pattern'],
      [`${ID}\n`, 'pattern'],
      [`{${ID}}`, 'pattern'],
    ],
  },
  uuid: {
    good: [
      ID,
      ID.toUpperCase(),
      '123e4567-e89b-12d3-a456-426614174000',
      `urn:uuid:${ID}`,
      '00000000-0000-0000-0000-000000000000',
    ],
    bad: [
      ...notText,
      ['', 'format'],
      [ID.slice(1), 'format'],
      [`${ID}\n`, 'format'],
      [ID.replaceAll('-', ''), 'format'],
    ],
  },
  time: {
    good: [
      TIME,
      '2026-01-01T00:00:00Z',
      '2026-01-01t00:00:00z',
      '2026-01-01 00:00:00Z',
      '2024-02-29T00:00:00+05:30',
      '2026-01-01T00:00:00-0800',
      '2026-01-01T00:00:00+05',
      '2016-12-31T23:59:60Z',
    ],
    bad: [
      ...notText,
      ['', 'format'],
      ['2026-01-01', 'format'],
      ['2026-01-01T00:00:00', 'format'],
      ['2026-02-29T00:00:00Z', 'format'],
      ['2026-13-01T00:00:00Z', 'format'],
      ['2026-01-01T24:00:00Z', 'format'],
      ['2026-01-01T00:00:60Z', 'format'],
      ['2026-01-01T00:00:00+24:00', 'format'],
      ['20260101T000000Z', 'format'],
      ['yesterday', 'format'],
    ],
  },
  email: {
    good: ['a@b.co', 'a.b+c@example.com'],
    bad: [...notText, ['', 'format'], ['a', 'format'], ['a@b', 'format'], ['@b.co', 'format'], ['a b@c.de', 'format']],
  },
  uri: {
    good: ['https://ci.example.com/run/1?a=b#c', 'urn:x:y', 'file:///tmp/x'],
    bad: [...notText, ['', 'format'], ['example', 'format'], ['/run/1', 'format'], ['http://a b', 'format']],
  },
  text: { good: ['a', '', ' ', '\ud800', 'ü'.repeat(1000)], bad: notText },
  some: { good: ['a', ' ', '\ud83d'], bad: [...notText, ['', 'min_length']] },
  dotted: {
    good: ['plan', 'plan.created', 'vsl.transition.applied', 'a1.b2'],
    bad: [
      ...notText,
      ['', 'pattern'],
      ['plan_status_changed', 'pattern'],
      ['plan-created', 'pattern'],
      ['SAInitialized', 'pattern'],
      ['plan.', 'pattern'],
      ['.plan', 'pattern'],
      ['plan..created', 'pattern'],
      ['1plan', 'pattern'],
      ['plan.1', 'pattern'],
      ['plan\n', 'pattern'],
    ],
  },
  version: {
    good: ['1.0.0', '0.0.0', '01.2.3', '10.20.30'],
    bad: [
      ...notText,
      ['', 'pattern'],
      ['1.0', 'pattern'],
      ['1.0.0.0', 'pattern'],
      ['v1.0.0', 'pattern'],
      ['1.0.0-a', 'pattern'],
    ],
  },
  semver: {
    good: [
      '1.0.0',
      '0.0.4',
      '1.0.0-alpha.1',
      '1.0.0-0A.is.legal',
      '1.0.0+build.001',
      '1.0.0-rc.1+build.1',
      '1.0.0--',
      '99.99.99',
    ],
    bad: [
      ...notText,
      ...[
        '',
        '1',
        '1.0',
        '01.0.0',
        '1.00.0',
        '1.0.0-',
        '1.0.0-01',
        '1.0.0+',
        '1.0.0-a..b',
        'v1.0.0',
        '1.0.0 ',
        '1.0.0+a+b',
      ].map((text) => [text, 'pattern'] as const),
    ],
  },
  flag: {
    good: [true, false],
    bad: [
      [null, 'type'],
      [0, 'type'],
      ['true', 'type'],
      [[], 'type'],
      [{}, 'type'],
    ],
  },
  integer: { good: [0, -1, 5, 1e20, -0], bad: [...notNumber, [0.5, 'type'], [Number.NaN, 'type'], [Infinity, 'type']] },
  count: { good: [0, 1, 1e20], bad: [...notNumber, [0.5, 'type'], [-1, 'minimum']] },
  amount: { good: [0, 0.5, 1e9], bad: [...notNumber, [-0.1, 'minimum'], [Infinity, 'type']] },
  share: { good: [0, 0.5, 1], bad: [...notNumber, [-0.1, 'minimum'], [1.1, 'maximum']] },
  rating: { good: [0, 4.5, 5], bad: [...notNumber, [-1, 'minimum'], [5.1, 'maximum']] },
  object: {
    good: [{}, { any: [{ thing: null }] }],
    bad: [
      [null, 'type'],
      [[], 'type'],
      ['{}', 'type'],
      [1, 'type'],
    ],
  },
  'object-or-null': {
    good: [{}, { a: 1 }, null],
    bad: [
      [[], 'type'],
      ['null', 'type'],
      [0, 'type'],
      [false, 'type'],
    ],
  },
}

/** What a type of facts.ts accepts and refuses; paths in `bad` are below the value. */
export function samplesOf(type: string): {
  good: readonly unknown[]
  bad: readonly (readonly [value: unknown, path: string, rule: string])[]
} {
  const list = /^(.*)\[(|1\+|set)\]$/.exec(type)
  if (list) return listSamples(samplesOf(list[1] as string), list[2] as string)
  const reference = /^<(.*)>$/.exec(type)
  if (reference) return { good: [full(reference[1] as string), minimal(reference[1] as string)], bad: notObject }
  if (type.startsWith('=')) return constant(type.slice(1))
  if (type.includes('|')) return enumeration(type.split('|'))
  const { good, bad } = WORDS[type] as Samples
  return { good, bad: bad.map(([value, rule]) => [value, '', rule] as const) }
}

/** A document with everything it may have. */
export const full = (kind: string): Record<string, unknown> => document(kind, () => true)

/** A document with nothing but what it must have. */
export const minimal = (kind: string): Record<string, unknown> => document(kind, (required) => required)

export const fieldsOf = (kind: string): { name: string; required: boolean; type: string }[] =>
  Object.entries((shapes[kind] as Shape).fields).map(([name, type]) => ({
    name: name.replace('!', ''),
    required: name.endsWith('!'),
    type,
  }))

/** Every shape inside a document of this kind, itself first, with the way to it: `['steps', 0]`. */
export function* shapesIn(
  kind: string,
  at: readonly (string | number)[] = [],
): Iterable<{ shape: string; at: typeof at }> {
  yield { shape: kind, at }
  for (const { name, type } of fieldsOf(kind)) {
    const [, shape, list] = /^<(.*)>(\[.*\])?$/.exec(type) ?? []
    if (shape !== undefined) yield* shapesIn(shape, list === undefined ? [...at, name] : [...at, name, 0])
  }
}

const notObject: readonly (readonly [unknown, string, string])[] = [
  [null, '', 'type'],
  ['x', '', 'type'],
  [[], '', 'type'],
]

function document(kind: string, wants: (required: boolean) => boolean): Record<string, unknown> {
  const fields = fieldsOf(kind).filter(({ required }) => wants(required))
  return Object.fromEntries(fields.map(({ name, type }) => [name, samplesOf(type).good[0]]))
}

function listSamples(item: ReturnType<typeof samplesOf>, bound: string): ReturnType<typeof samplesOf> {
  const [one] = item.good
  return {
    good: bound === '1+' ? [[one]] : [[one], []],
    bad: [
      [null, '', 'type'],
      [one === undefined ? 0 : { 0: one }, '', 'type'],
      ...item.bad.map(([value, path, rule]) => [[one, value], `[1]${path}`, rule] as const),
      ...(bound === '1+' ? [[[], '', 'min_items'] as const] : []),
      ...(bound === 'set' ? [[[one, one], '[1]', 'unique_items'] as const] : []),
    ],
  }
}

const constant = (value: string): ReturnType<typeof samplesOf> => ({
  good: [value],
  bad: ['', 'x', null, 1, [value]].map((wrong) => [wrong, '', 'const'] as const),
})

const enumeration = (values: readonly string[]): ReturnType<typeof samplesOf> => ({
  good: values,
  bad: [
    ...['', 'nonsense', `${values[0]} `, String(values[0]).toUpperCase()]
      .filter((wrong) => !values.includes(wrong))
      .map((wrong) => [wrong, '', 'enum'] as const),
    ...[null, 0, [values[0]]].map((wrong) => [wrong, '', 'type'] as const),
  ],
})
