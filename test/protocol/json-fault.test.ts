import { describe, expect, it } from 'vitest'
import { jsonFault } from '../../src/protocol/json-fault.ts'

const faultOf = (text: string) => {
  try {
    return JSON.parse(text)
  } catch (error) {
    return jsonFault(text, error)
  }
}

describe('a text that is no JSON', () => {
  it.each([
    ['{\n  "a": 1,\n  "b": }\n\n\n', 3, "Unexpected token '}'"],
    ['[\n  1,\n]\n\n', 3, "Unexpected token ']'"],
    ['{\n "a": true,\n "b": nope,\n "c": "a text behind it"\n}', 3, "Unexpected token 'o'"],
    ['{\n "a": ,\n "b": 1\n}', 2, "Unexpected token ','"],
    ['<!doctype html>\n<p>\n', 1, "Unexpected token '<'"],
    ['{\n "a": 1\n "b": 2\n}', 3, expect.stringMatching(/^Expected/)],
    ['{\n "a": 1,\n}\n', 3, expect.stringMatching(/^Expected/)],
    ['{\n "a": "one\n two"\n}\n', 2, expect.stringMatching(/^Bad control character/)],
    ['{}\n{}\n', 2, 'Unexpected non-whitespace character'],
    ['{\n "a": 1', 2, expect.stringMatching(/^Expected/)],
    ['', 1, 'Unexpected end of JSON input'],
  ])('is told by the line on which it is none: %j', (text, line, message) => {
    expect(faultOf(text)).toEqual({ line, message })
  })
})
