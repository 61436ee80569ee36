import { setFlagsFromString } from 'node:v8'
import { runInNewContext, runInThisContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import {
  canonical,
  digestOf,
  digestOfJson,
  fresh,
  isObject,
  type Json,
  setMember,
  uuidOf,
} from '../../src/protocol/json.ts'
import { anyJson } from '../support/arbitraries.ts'

describe('canonical', () => {
  it('says the same whatever the order of keys', () => {
    expect(canonical({ b: [1, { d: null, c: 'x' }], a: true })).toBe('{"a":true,"b":[1,{"c":"x","d":null}]}')
  })

  it('is JSON that says what the value says', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const text = canonical(value)
        expect(canonical(JSON.parse(text))).toBe(text)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(canonical(reversed(value))).toBe(text)
      }),
    )
  })

  it('writes every text as JSON.stringify does', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => canonical(text) === JSON.stringify(text)))
    for (const text of ['"', '\\', '\n', '\u0000', '\u001f', '\u2028', '\ud800', '\udfff', 'é', '\u{1F600}'])
      expect(canonical(text)).toBe(JSON.stringify(text))
  })

  it('leaves out members that are undefined, as JSON does', () => {
    expect(canonical({ a: undefined, b: 1 } as never)).toBe('{"b":1}')
  })

  it('takes plain objects from wherever they come', () => {
    const foreign = runInNewContext('({ a: [{}] })')
    expect(canonical([foreign, Object.assign(Object.create(null), { b: 1 })])).toBe('[{"a":[{}]},{"b":1}]')
  })
})

describe('what is no JSON', () => {
  const endless: unknown[] = []
  endless.push(endless)
  it.each([
    ['undefined', undefined],
    ['undefined in a list', [undefined]],
    ['a bigint', { a: 1n }],
    ['a function', { a: () => 1 }],
    ['NaN', { a: [Number.NaN] }],
    ['a number without end', Number.NEGATIVE_INFINITY],
    ['a symbol', Symbol('a')],
    ['a date', { at: new Date(0) }],
    ['a map', new Map([['a', 1]])],
    ['bytes', Buffer.from('a')],
    ['a cycle', endless],
    ['a thing that is nested too deeply', JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)],
  ])('%s has no text and no digest', (_, value) => {
    for (const asked of [canonical, digestOfJson])
      expect(() => asked(value as Json)).toThrow(expect.objectContaining({ code: 'invalid_input', subject: 'JSON' }))
  })
})

describe('digests', () => {
  it('are sha256 of the bytes, or of the canonical text', () => {
    expect(digestOf('abc')).toBe('sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    expect(digestOf(new TextEncoder().encode('abc'))).toBe(digestOf('abc'))
    expect(digestOfJson({ b: 1, a: 2 })).toBe(digestOf('{"a":2,"b":1}'))
  })
})

it('makes one UUID v4 of one text, and none of what is no text', () => {
  expect(uuidOf('order 7')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(uuidOf('order 7')).toBe(uuidOf('order 7'))
  expect(uuidOf('order 8')).not.toBe(uuidOf('order 7'))
  expect(() => uuidOf(7 as never)).toThrow(InvalidInput)
})

it('tells objects from everything else', () => {
  expect([{}, Object.create(null), new Map()].map(isObject)).toEqual([true, true, true])
  expect([null, undefined, [], 'x', 1, () => {}].map(isObject)).toEqual([false, false, false, false, false, false])
})

function reversed(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversed)
  if (!isObject(value)) return value
  const object = {}
  for (const [name, item] of Object.entries(value).reverse()) {
    Object.defineProperty(object, name, { value: reversed(item as Json), enumerable: true })
  }
  return object
}

describe('fresh', () => {
  it('is an object like any other', () => {
    const made = fresh<Json>()
    setMember(made, 'a', 1)
    expect(made).toStrictEqual({ a: 1 })
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
    expect(JSON.stringify(made)).toBe('{"a":1}')
  })

  it('takes a member of any name', () => {
    const made = fresh<Json>()
    for (const name of ['__proto__', 'constructor', '']) setMember(made, name, { of: name })
    const text = '{"__proto__":{"of":"__proto__"},"constructor":{"of":"constructor"},"":{"of":""}}'
    expect(JSON.stringify(made)).toBe(text)
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
  })

  it('is of one kind with the next, also in a process that has made thousands of other kinds', () => {
    setFlagsFromString('--allow-natives-syntax')
    const areAlike: (a: object, b: object) => boolean = runInThisContext('(a, b) => %HaveSameMap(a, b)')
    expect(areAlike({ a: 1 }, { b: 1 })).toBe(false) // compiled with its first call
    setFlagsFromString('--no-allow-natives-syntax')
    const held = Array.from({ length: 5_000 }, (_, i) => Object.fromEntries([[`name ${i}`, i]]))
    const grown = (from: { [name: string]: Json }) => Object.assign(from, { 'nobody had this': 1 })
    expect(areAlike(grown(fresh()), grown(fresh()))).toBe(true)
    expect(areAlike(grown({}), grown({}))).toBe(false) // once this is true, nobody needs the other any more
    expect(held).toHaveLength(5_000)
  })
})
