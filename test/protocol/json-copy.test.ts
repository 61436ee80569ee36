import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInput } from '../../src/protocol/errors.ts'
import { jsonCopy } from '../../src/protocol/json-copy.ts'
import { anyJson } from '../support/arbitraries.ts'

const copyOf = (value: unknown) => jsonCopy(value, 'the output of work', 'output')

class Price {
  amount = 3
  until = new Date(0)
  note = undefined
  #secret = 1
  doubled() {
    return this.amount * 2 * this.#secret
  }
}
class Hidden {
  #value = 1
  get value() {
    return this.#value
  }
}

describe('jsonCopy', () => {
  it('gives what going through JSON text gives, and shares nothing with it', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const copy = copyOf(value)
        expect(JSON.stringify(copy)).toBe(JSON.stringify(value))
        if (typeof value === 'object' && value !== null) expect(copy).not.toBe(value)
      }),
    )
  })

  it.each([
    ['an instance with fields', new Price()],
    ['a date', { at: new Date(0) }],
    ['an address, which says itself', new URL('https://example.org/a')],
    ['an error that says itself', Object.assign(new Error('no'), { toJSON: () => ({ said: 'no' }) })],
    ['members that are undefined', { a: undefined, b: { toJSON: () => undefined }, c: 1 }],
    ['items that are undefined', [undefined, 1, ...new Array(1)]],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['an object of another realm', runInNewContext('({ a: [{}] })')],
    ['a member that is called __proto__', JSON.parse('{"__proto__":{"a":1}}')],
    ['wrapped values', [Object(1), Object('ab'), Object(true)]],
    ['a toJSON that is told where it is', { here: { toJSON: (key: string) => key }, list: [{ toJSON: String }] }],
    ['what a toJSON gives, whose members say themselves', { toJSON: () => ({ at: new Date(0), toJSON: 1 }) }],
    ['a negative zero', [-0]],
    ['the same thing twice', [{ a: 1 }].flatMap((item) => [item, item])],
  ])('tells %s as JSON does', (_what, value) => {
    expect(copyOf(value)).toEqual(JSON.parse(JSON.stringify(value)))
    expect(JSON.stringify(copyOf(value))).toBe(JSON.stringify(value))
  })

  const round: Record<string, unknown> = { list: [{}] }
  round.list = [{ back: round }]
  it.each([
    ['NaN', { rate: Number.NaN }, 'output.rate'],
    ['infinity', [1, Number.NEGATIVE_INFINITY], 'output[1]'],
    ['a bigint', { 'a b': 1n }, 'output["a b"]'],
    ['a function', { a: { run: () => 1 } }, 'output.a.run'],
    ['a symbol', [Symbol('x')], 'output[0]'],
    ['a date that is none', { at: new Date('no') }, 'output.at'],
    ['a map', new Map([['a', 1]]), 'output'],
    ['a map with fields', Object.assign(new Map(), { name: 'x' }), 'output'],
    ['a set', { seen: new Set([1]) }, 'output.seen'],
    ['an error with a code', Object.assign(new Error('no'), { code: 'ENOENT' }), 'output'],
    ['a promise', { rows: [Promise.resolve(1)] }, 'output.rows[0]'],
    ['bytes', { body: Buffer.from('a') }, 'output.body'],
    ['a typed array', new Float64Array(2), 'output'],
    ['a buffer of bytes', new ArrayBuffer(2), 'output'],
    ['a pattern', /x/, 'output'],
    ['an instance that keeps everything to itself', { inner: new Hidden() }, 'output.inner'],
    ['a map of another realm', runInNewContext('new Map([[1, 2]])'), 'output'],
    ['something that contains itself', round, 'output.list[0].back'],
    ['what a toJSON gives', { a: { toJSON: () => ({ b: Number.NaN }) } }, 'output.a.b'],
    ['what endlessly says itself anew', { toJSON: endlessly }, 'output'],
  ])('refuses %s, and names the place', (_what, value, path) => {
    const problem = { path, rule: 'json', message: expect.stringContaining(';') }
    expect(() => copyOf(value)).toThrow(
      expect.objectContaining({ code: 'invalid_input', subject: 'the output of work', problems: [problem] }),
    )
  })

  it('says why something could not be read', () => {
    const cause = new Error('closed')
    const shut = {
      get row() {
        throw cause
      },
    }
    const refusal = (): unknown => {
      try {
        return copyOf([shut])
      } catch (error) {
        return error
      }
    }
    expect(refusal()).toBeInstanceOf(InvalidInput)
    expect(refusal()).toMatchObject({ problems: [{ path: 'output[0].row' }], cause })
  })
})

function endlessly(): object {
  return { more: { toJSON: endlessly } }
}
