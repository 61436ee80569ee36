import { describe, expect, it, vi } from 'vitest'
import { compileSchema } from '../../src/ael/schema.ts'
import type { JsonObject } from '../../src/protocol/json.ts'

const MIB = 1024 * 1024
const many = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i))

describe('compileSchema', () => {
  const twice = (i: number): [string, JsonObject] => {
    const next = { $ref: `#/$defs/at${i + 1}` }
    return [`at${i}`, { anyOf: [next, { ...next, minLength: 1 }] }]
  }
  it.each<[string, JsonObject, unknown]>([
    ['a pattern that backtracks', { pattern: '^(a+)+$' }, `${'a'.repeat(34)}!`],
    [
      'references that double',
      { ...twice(0)[1], $defs: Object.fromEntries([...many(40, twice), ['at40', { type: 'string' }]]) },
      7,
    ],
    [
      'a large list that fits none of many',
      { items: { anyOf: many(20, (i) => ({ const: `${i}` })) } },
      Array(1_000_000).fill(7),
    ],
  ])('gives up on %s: whoever wrote schema or value keeps the process from nothing else', (_, schema, value) => {
    const { problems } = compileSchema(schema, 'it.output')
    expect(() => problems(value)).toThrow(/it\.output: its schema took longer/)
    expect(compileSchema({ type: 'string' }, 'it.output').problems(7)).toHaveLength(1)
  })

  it('compiles what is referred to hundreds of times only once', () => {
    const properties = Object.fromEntries(many(300, (i) => [`p${i}`, { $ref: '#/$defs/one' }] as const))
    const one = { anyOf: many(300, (i) => ({ const: i })) }
    const { problems } = compileSchema({ properties, $defs: { one } } as JsonObject, 'it.input')
    expect(problems({ p7: 299 })).toEqual([])
    expect(problems({ p7: 'x' })).toHaveLength(100)
  })

  it.each([
    'https://json-schema.org/draft/2020-12/schema',
    'https://json-schema.org/draft/2020-12/meta/validation',
    'http://json-schema.org/draft-07/schema#',
    '__proto__',
  ])('judges later schemas as before, whoever calls itself or a part of it %s', async ($id) => {
    vi.resetModules() // it comes first, before any other is compiled
    const { compileSchema } = await import('../../src/ael/schema.ts')
    for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#'])
      for (const schema of [{ $id, type: 'string' }, { properties: { a: { $id, type: 'string' } } }]) {
        try {
          compileSchema({ ...schema, $schema }, 'theirs')
        } catch (error) {
          expect(error).toMatchObject({ problems: [{ path: 'theirs' }] })
        }
        const title = JSON.stringify([$schema, schema]) // or it would be known already
        const { problems } = compileSchema({ $schema, title, type: 'object', required: ['name'] }, 'ours')
        expect(problems({})).toHaveLength(1)
        expect(problems({ name: 7 })).toEqual([])
        expect(() => compileSchema({ $schema, title, type: 'objekt' }, 'ours')).toThrow(/does not compile/)
      }
  })

  it('keeps no more of the schemas that it has met than a server may list at once', () => {
    const schema = { type: 'object', title: 'the first' }
    const first = compileSchema(schema, 'input')
    const others = (count: number, from: number) => {
      for (let i = from; i < from + count; i++)
        compileSchema({ description: 'x'.repeat(8 * MIB), title: `${i}` }, 'input')
    }
    others(7, 0)
    expect(compileSchema(schema, 'input')).toBe(first)
    others(1, 7)
    expect(compileSchema(schema, 'input')).not.toBe(first)
  })

  it('refuses a schema that takes too long to compile', () => {
    const properties = Object.fromEntries(many(60_000, (i) => [`p${i}`, { type: 'string', minLength: 1 }] as const))
    expect(() => compileSchema({ properties } as JsonObject, 'it.input')).toThrow(/took longer/)
  })
})
