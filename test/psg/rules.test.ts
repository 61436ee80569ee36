import { describe, expect, it } from 'vitest'
import { RuleViolation } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { FOLDING, RULES } from '../../src/psg/rules.ts'
import { by, contentsOf, storeContents, violationsOf, world } from './given.ts'
import { RULE_CASES, type RuleCase } from './rule-cases.ts'

describe('psg/rules', () => {
  it('has a case for every rule of the table, and a rule for every case', () => {
    const known = [...FOLDING, ...RULES].map((rule) => rule.id)
    expect(new Set(RULE_CASES.map(({ rule }) => rule))).toEqual(new Set(known))
    expect(new Set(known).size).toBe(known.length)
  })

  for (const { id, keeps } of [...FOLDING, ...RULES]) {
    const cases = RULE_CASES.filter(({ rule }) => rule === id)
    describe(`${id}: ${keeps}`, () => {
      for (const one of cases) {
        it(one.title, () => refusesAndPasses(one))
        if (!FOLDING.some((rule) => rule.id === id))
          it(`${one.title}: but not when the rule is switched off`, () => looksOnlyWhenOn(one))
      }
    })
  }
})

/** The breaking commit is refused by name and leaves nothing behind; its neighbour lands. */
async function refusesAndPasses({ rule, told = rule, options, prepare }: RuleCase): Promise<void> {
  const given = await world(options)
  const { graph, store } = given
  const { breaks, passes } = await prepare(given)
  const before = { store: await storeContents(store), memory: contentsOf(graph.state), revision: graph.revision }

  const refusal = graph.commit(breaks.changes, { ...by, ...breaks.options })
  await expect(refusal).rejects.toBeInstanceOf(RuleViolation)
  const violations = await violationsOf(refusal)
  expect(violations).toContainEqual({
    rule: told,
    node: breaks.node,
    path: breaks.path,
    message: expect.stringMatching(/./),
  })
  expect({ store: await storeContents(store), memory: contentsOf(graph.state), revision: graph.revision }).toEqual(
    before,
  )

  const commit = await graph.commit(passes.changes, { ...by, ...passes.options })
  expect(commit.revision).toBe(before.revision + 1)
  expect(await graph.verify()).toEqual([])
  const reopened = await openGraph(store, graph.id, { ...options, clock: given.clock })
  const shared = [...reopened.state.groups()]
  expect(contentsOf(reopened.state)).toEqual(contentsOf(graph.state, shared))
}

/** What a rule refuses must be the rule's doing. What is found while folding cannot be switched off. */
async function looksOnlyWhenOn({ rule, told = rule, options, prepare }: RuleCase): Promise<void> {
  const switched = new Set([...(options?.switched ?? []), rule])
  const given = await world({ ...options, switched })
  const { breaks } = await prepare(given)
  const outcome = await given.graph.commit(breaks.changes, { ...by, ...breaks.options }).then(
    () => [],
    (error) => (error instanceof RuleViolation ? error.violations : []),
  )
  expect(outcome.filter((violation) => violation.rule === told)).toEqual([])
}
