import { expect, it } from 'vitest'
import { child } from '../support/child.ts'

it('says what is to be done where node makes no code of text', async () => {
  const script = new URL('without-code.ts', import.meta.url)
  const { line, exited } = child(script, [], { NODE_OPTIONS: '--disallow-code-generation-from-strings' })
  expect(await line()).toMatch(/^refused node makes no code of text here, .*; start node without --disallow-/)
  expect(await line()).toMatch(/^invalid_input schema is not valid: input cannot be compiled where node makes no code /)
  expect(await line()).toBe('closed')
  expect(await exited).toBe('code 0')
})
