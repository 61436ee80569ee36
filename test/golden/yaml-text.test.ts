import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { YamlFault, yamlIn } from '../../src/golden/yaml-text.ts'

function faultOf(text: string): YamlFault | undefined {
  try {
    yamlIn(text, { stringKeys: true })
    return undefined
  } catch (error) {
    if (error instanceof YamlFault) return error
    throw error
  }
}

describe('a text that is no YAML, or none that is taken, is told in our words, with place, path and what to do:', () => {
  const read = 'title: a\nsteps:\n  read:\n    action_type: wait\n'
  it.each([
    ['a list without an end', `${read}    after: [one`, [5, 16, 'steps.read.after[0]', 'end it with ]']],
    ['a map without an end', `${read}    params: { ms: 1`, [5, 20, 'steps.read.params.ms', 'end it with }']],
    ['a quote without an end', 'title: "a\n', [2, 1, 'title', 'end it with "']],
    ['a list without commas', 'steps: ["a" "b"]\n', [1, 13, 'steps[0].a', 'without a comma']],
    ['text behind a text in quotes', 'title: "a" b\n', [1, 12, 'title', 'followed by what does not belong to it']],
    ['a list behind a name', 'steps: - a\n', [1, 8, 'steps', 'on a line of its own']],
    ['a name twice', 'title: a\ntitle: b\n', [2, 1, 'title', 'stands there twice']],
    ['a tab', 'steps:\n\tread: 1\n', [2, 1, 'steps', 'use spaces']],
    ['an entry too far left', 'steps:\n  - a\n - b\n', [3, 1, 'steps[0]', 'in the same column']],
    ['an entry too far right', 'title: a\n  steps: 1\n', [1, 8, 'title.a steps', 'in the column of the others']],
    ['a colon in a text', 'title: a: b\n', [1, 8, 'title.a', 'in quotes if it is text']],
    ['a text that begins with a sign', 'title: @a\n', [1, 8, 'title', 'put it in quotes']],
    ['a backslash', 'title: "C:\\dir"\n', [1, 11, 'title', 'use single quotes']],
    ['a tag that nobody knows', 'steps:\n  read: !env NAME\n', [2, 9, 'steps.read', 'the tag !env is not known']],
    ['a name that is a list', 'steps: { [a, b]: {} }\n', [1, 10, 'steps', 'a name is text']],
    ['two documents', 'title: a\n---\ntitle: b\n', [2, 1, 'title', 'a file of its own']],
    ['an alias for nothing', 'steps:\n  - *one\n', [2, 5, 'steps[0]', '*one stands for nothing; put &one before']],
    ['an alias in itself', 'a: &a\n  - *a\n', [2, 5, 'a[0]', '*a stands in itself']],
    [
      'too many aliases',
      `a: &a [x,x]\nb: &b [${'*a,'.repeat(9)}*a]\nc: [${'*b,'.repeat(99)}*b]\n`,
      [3, 302, 'c[99]', 'repeat more than 100 times'],
    ],
    ['a name without a colon', 'title: a\nsteps\n', [2, 1, 'steps', 'with a colon and a space behind it']],
  ] as const)('%s', (_, text, [line, column, path, says]) => {
    expect(faultOf(text)).toMatchObject({ line, column, path, message: expect.stringContaining(says) })
  })

  it('never in those of the parser', () => {
    const whole = 'title: "a"\nsteps:\n  - { read: [1, 2], b: !t x }\n  - &a c: |\n      text\n    d: *a\n'
    const signs = fc.constantFrom(...'\t :,-[]{}&*!|>%@`"\'#?\\\n')
    const broken = fc
      .array(fc.tuple(fc.nat(whole.length), signs), { minLength: 1, maxLength: 4 })
      .map((edits) => edits.reduce((text, [at, sign]) => text.slice(0, at) + sign + text.slice(at), whole))
    let faults = 0
    fc.assert(
      fc.property(broken, (text) => {
        const fault = faultOf(text)
        if (!fault) return
        faults++
        if (fault.cause) expect(fault.message).not.toContain((fault.cause as Error).message.slice(0, 12))
        expect(fault.message).toMatch(/; /) // what is wrong; what to do
        expect(fault.line).toBeGreaterThan(0)
        expect(fault.column).toBeGreaterThan(0)
      }),
      { numRuns: 700, seed: 1 },
    )
    expect(faults).toBeGreaterThan(400)
  })
})
