import { expect, it } from 'vitest'
import { repeatedName } from '../../src/golden/repeated-name.ts'

it.each([
  ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}', undefined],
  ['["a","a",{"a":"a"},"a"]', undefined],
  ['{"a":"\\",\\"a\\":1","b":"{\\"a\\""}', undefined],
  ['{"":1,"\\\\":2}', undefined],
  ['"a"', undefined],
  ['{"a":1,"a":1}', 'a'],
  ['{"a":[{"x":[],"y":{},"x":0}]}', 'x'],
  ['{"a":{"b":1},"c":[1,2],"a":3}', 'a'],
  ['{ "a" : "b" , "\\u0061" : 1 }', 'a'],
  ['{"\\"":1,"\\u0022":2}', '"'],
  ['{"__proto__":1,"__proto__":2}', '__proto__'],
])('finds the name that an object has twice: %s', (text, name) => {
  expect(() => JSON.parse(text)).not.toThrow()
  expect(repeatedName(text)).toBe(name)
})
