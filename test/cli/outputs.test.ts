import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

const PATIENT = 120_000

/** What `mplp run` prints, for people, of a flow whose functions give what is told. */
async function printed(given: { readonly [step: string]: unknown }): Promise<readonly string[]> {
  const folder = tempFolder()
  const functions = Object.entries(given).map(
    ([step, output]) => `${JSON.stringify(step)}: () => (${JSON.stringify(output)})`,
  )
  writeFileSync(
    join(folder, 'mplp.config.mjs'),
    `export default { vsl: 'memory:', functions: { ${functions.join(', ')} } }`,
  )
  const steps = Object.fromEntries(
    Object.keys(given).map((name) => [name, { action_type: 'function', params: { name } }]),
  )
  writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Outputs', steps, options: { concurrency: 1 } }))
  const { code, out } = await mplpHere(folder, ['run', 'flow.json'])
  expect(code).toBe(0)
  return out.trimEnd().split('\n').slice(1)
}

describe('mplp run', { timeout: PATIENT }, () => {
  it('shows what the steps gave, each in a line', async () => {
    expect(await printed({ text: 'two\nlines', object: { a: [1, 2] }, nothing: null })).toEqual([
      'completed',
      'text    two lines',
      'object  {"a":[1,2]}',
    ])
  })

  it('shows the beginning of what is long, and no half of a character', async () => {
    expect(await printed({ long: 'x'.repeat(101), wide: `${'x'.repeat(99)}🙂` })).toEqual([
      'completed',
      `long  ${'x'.repeat(100)}…`,
      `wide  ${'x'.repeat(99)}…`,
    ])
  })

  it('shows the last of many', async () => {
    const many = Object.fromEntries(Array.from({ length: 22 }, (_, i) => [`s${i}`, i]))
    const lines = await printed(many)
    expect(lines.slice(0, 3)).toEqual(['completed', '… 2 more; --json has them all', 's2   2'])
    expect(lines).toHaveLength(22)
  })

  it('shows which steps failed or were skipped beside the one that the run failed of, and why; and so does mplp show', async () => {
    const folder = tempFolder()
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      `const no = (name) => () => { throw new Error('no ' + name) }
       export default { vsl: 'sqlite:./state.db', functions: { a: () => 1, b: no('b'), c: no('c'), d: no('d') } }`,
    )
    const call = (name: string, on_failure = 'fail') => ({ action_type: 'function', params: { name }, on_failure })
    const steps = { a: call('a'), b: call('b', 'skip'), c: call('c', 'continue'), d: call('d') }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify({ title: 'Failures', steps, options: { concurrency: 1 } }))
    const { code, out } = await mplpHere(folder, ['run', 'flow.json'])
    const [first, ...lines] = out.trimEnd().split('\n')
    expect([code, ...lines]).toEqual([1, 'failed: the step “d”: no d', 'skipped: b  no b', 'failed: c   no c', 'a  1'])
    const shown = await mplpHere(folder, ['show', first!.split(' ')[1]!, '--json'])
    expect(Object.values(JSON.parse(shown.out).failures)).toMatchObject([{ message: 'no b' }, {}, { message: 'no d' }])
  })

  it('shows what was taken back, and what was not and why', async () => {
    const folder = tempFolder()
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      `const no = () => { throw new Error('no') }
       export default { vsl: 'memory:', functions: { book: () => null, unbook: () => null, send: () => null, no } }`,
    )
    const call = (name: string, inverse?: string, ...dependencies: string[]) => ({
      action_type: 'function',
      params: { name },
      dependencies,
      approval: 'none',
      ...(inverse && {
        inverse: inverse === 'irreversible' ? inverse : { action_type: 'function', params: { name: inverse } },
      }),
    })
    const steps = {
      book: call('book', 'unbook'),
      send: call('send', 'irreversible', 'book'),
      keep: call('book', 'no', 'send'),
      pay: call('no', undefined, 'keep'),
    }
    const flow = { title: 'Taken back', steps, options: { on_failure: 'compensate' } }
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flow))
    const { code, out } = await mplpHere(folder, ['run', 'flow.json'])
    expect([code, ...out.trimEnd().split('\n').slice(1)]).toEqual([
      1,
      'failed: the step “pay”: no',
      'not taken back: send  it cannot be undone',
      'not taken back: keep  no',
      'taken back: book',
    ])
  })

  it('shows nothing where nothing was given', async () => {
    expect(await printed({ nothing: null })).toEqual(['completed'])
  })
})
