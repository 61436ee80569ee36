import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/protocol/json.ts'
import { plain, sameJson } from '../../src/psg/plain.ts'

const parsed = (text: string): Json => JSON.parse(text)

describe('psg: a copy', () => {
  const boom = new Error('boom')
  const thrown = () => {
    throw boom
  }
  it.each([
    ['a member', { a: [{}, Object.defineProperty({}, 'b', { get: thrown, enumerable: true })] }, 'args.a[1].b'],
    ['a list', [Object.defineProperty([], 0, { get: thrown, enumerable: true })], 'args[0]'],
    ['what stands for another object', { a: new Proxy({}, { ownKeys: thrown }) }, 'args.a'],
  ])('names the place of %s that throws when it is read', (_, value, path) => {
    const message = 'throws when it is read; give a copy of what it holds'
    expect(() => plain(value, 'args', 'flow')).toThrow(
      expect.objectContaining({ code: 'invalid_input', problems: [{ path, rule: 'json', message }], cause: boom }),
    )
  })
})

describe('psg: two values', () => {
  it.each([
    ['[1,{"a":[]}]', '[1,{"a":[]}]'],
    ['{"a":1,"b":{"c":null}}', '{"b":{"c":null},"a":1}'],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
  ])('%s and %s say the same', (one, other) => {
    expect(sameJson(parsed(one), parsed(other))).toBe(true)
  })

  it('say the same when one leaves a member out that the other has as undefined', () => {
    expect(sameJson({ a: 1, b: undefined as never }, { a: 1 })).toBe(true)
    expect(sameJson({ a: 1 }, { a: 1, b: undefined as never })).toBe(true)
    expect(sameJson(undefined, undefined)).toBe(true)
  })

  it.each([
    ['1', '"1"'],
    ['null', '{}'],
    ['[]', '{}'],
    ['{"0":1}', '[1]'],
    ['[1]', '[1,2]'],
    ['[1,2]', '[2,1]'],
    ['{"a":1}', '{"a":1,"b":2}'],
    ['{"a":1,"b":2}', '{"a":1}'],
    ['{"a":{"b":1}}', '{"a":{"b":2}}'],
    ['{"__proto__":{}}', '{"a":{}}'],
    ['{"constructor":1}', '{"a":1}'],
  ])('%s and %s do not say the same', (one, other) => {
    expect(sameJson(parsed(one), parsed(other))).toBe(false)
    expect(sameJson(parsed(other), parsed(one))).toBe(false)
  })
})
