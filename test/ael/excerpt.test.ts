import { expect, it } from 'vitest'
import { beginningOf, endOf } from '../../src/ael/excerpt.ts'

const filler = 'x '.repeat(240)

it('keeps what is short, and leaves out the word that it would cut through', () => {
  expect([beginningOf('short'), endOf('short')]).toEqual(['short', 'short'])
  expect(beginningOf(`${filler}the-secret-of-the-service and more`)).toBe(`${filler}…`)
  expect(endOf(`less and the-secret-of-the-service${filler}`)).toBe(`…${filler.slice(1)}`)
  expect(beginningOf(`{"a":"${'x'.repeat(480)}","b":"the-secret-of-the-service"}`)).not.toContain('the-s')
  expect(beginningOf('x'.repeat(501))).toBe('…')
})
