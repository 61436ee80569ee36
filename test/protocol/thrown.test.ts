import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { inWords, messageOf } from '../../src/protocol/thrown.ts'

describe('what was thrown, in words', () => {
  const hostile = {
    toString: () => {
      throw new Error('not even that')
    },
  }
  const mute = {
    get message() {
      throw new Error('not even that')
    },
  }
  it.each([
    ['an error', new TypeError('no'), 'TypeError: no', 'no'],
    ['a text', 'no', 'no', 'no'],
    ['nothing', undefined, 'undefined', 'undefined'],
    ['a symbol', Symbol('s'), 'Symbol(s)', 'Symbol(s)'],
    ['an object without a prototype', Object.create(null), '[object Object]', '[object Object]'],
    ['an object that throws when it is asked', hostile, '[object Object]', '[object Object]'],
    ['an error of another realm', runInNewContext('new TypeError("no")'), 'TypeError: no', 'no'],
    ['what a service throws that is no error', { code: '23505', message: 'no' }, '[object Object]', 'no'],
    ['an object whose message throws', mute, '[object Object]', '[object Object]'],
  ])('is there for %s', (_, thrown, words, message) => {
    expect(inWords(thrown)).toBe(words)
    expect(messageOf(thrown)).toBe(message)
  })
})
