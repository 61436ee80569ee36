import { describe, expect, it } from 'vitest'
import { NotFound } from '../../src/protocol/errors.ts'
import { move } from '../../src/psg/moves.ts'
import { dot, mermaid } from '../../src/psg/picture.ts'
import { by, set, withPlan, world } from './given.ts'

async function drawn() {
  const given = await world()
  const plan = await withPlan(given, { build: [], test: ['build'] }, 'in_progress')
  await given.graph.commit([move('step', plan.step('build'), 'in_progress')], by)
  return { ...given, plan }
}

describe('psg/picture', () => {
  it('draws a plan for Mermaid, with statuses, from what is waited for to what waits', async () => {
    const { graph, plan } = await drawn()
    const text = mermaid(graph.state, { plan: plan.id })
    expect(text.split('\n').slice(0, 4)).toEqual([
      'flowchart LR',
      '  n0["build (in_progress)"]:::in_progress',
      '  n1["test (pending)"]:::pending',
      '  n0 --> n1',
    ])
    expect(text).toContain('classDef in_progress fill:')
  })

  it('draws a plan for Graphviz', async () => {
    const { graph, plan } = await drawn()
    const text = dot(graph.state, { plan: plan.id })
    expect(text.split('\n')).toEqual([
      'digraph psg {',
      '  rankdir=LR; node [shape=box, style="rounded,filled", fillcolor=white];',
      expect.stringMatching(/^ {2}n0 \[label="build \(in_progress\)", fillcolor="#.{6}"\];$/),
      expect.stringMatching(/^ {2}n1 \[label="test \(pending\)", fillcolor="#.{6}"\];$/),
      '  n0 -> n1;',
      '}',
    ])
  })

  it('draws a context with what a person would look for', async () => {
    const { graph } = await drawn()
    const text = mermaid(graph.state, 'context')
    for (const label of ['The shop (active)', 'A plan (in_progress)', 'build (in_progress)'])
      expect(text).toContain(`"${label}"`)
    for (const edge of ['waits for', 'contains', 'confirms', 'in']) expect(text).toContain(`-- ${edge} -->`)
    expect(text).not.toContain('gate')
    expect(dot(graph.state, 'context')).toContain('[label="confirms"]')
  })

  it('lets no text break out of its label', async () => {
    const given = await world()
    const plan = await withPlan(given, { a: [] })
    await given.graph.commit([set('step', plan.step('a'), { description: 'say "hi"]\n end; #35; <b>`x`</b> \\' })], by)
    const [line] = mermaid(given.graph.state, { plan: plan.id }).split('\n').slice(1)
    expect(line).toBe('  n0["say #34;hi#34;] end; #35;35; #60;b#62;#96;x#96;#60;/b#62; \\ (pending)"]:::pending')
    expect(dot(given.graph.state, { plan: plan.id })).toContain(
      'label="say \\"hi\\"]\\n end; #35; <b>`x`</b> \\\\ (pending)"',
    )
  })

  it('says that there is no such plan', async () => {
    const { graph, id } = await world()
    expect(() => mermaid(graph.state, { plan: id() })).toThrow(NotFound)
    expect(() => dot(graph.state, { plan: id() })).toThrow(NotFound)
  })
})
