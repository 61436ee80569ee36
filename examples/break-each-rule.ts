// What the graph refuses: a context and a plan, and each rule broken once. Prints the rule, what it keeps true, and the error that a caller reads.
// The list is the rule table itself, and the ways to break a rule are those of its tests, so that none is forgotten.
// npx tsx examples/break-each-rule.ts
import { RuleViolation } from '../src/protocol/errors.ts'
import { FOLDING, RULES } from '../src/psg/rules.ts'
import { by, world } from '../test/psg/given.ts'
import { RULE_CASES, type RuleCase } from '../test/psg/rule-cases.ts'

for (const { id, keeps } of [...FOLDING, ...RULES]) {
  const broken = RULE_CASES.find(({ rule }) => rule === id)
  if (!broken) throw new Error(`nobody knows how to break ${id}`)
  console.log(`${id}: ${keeps}`)
  console.log(`  ${broken.title}`)
  console.log(`  ${await refusal(broken)}\n`)
}
console.log(`${FOLDING.length + RULES.length} rules, each of them refused what breaks it and left nothing behind`)

/** Breaks a rule in a new graph, sees that nothing has changed, and gives back what the caller was told. */
async function refusal({ rule, told = rule, options, prepare }: RuleCase): Promise<string> {
  const given = await world(options)
  const { breaks } = await prepare(given)
  const { revision } = given.graph
  try {
    await given.graph.commit(breaks.changes, { ...by, ...breaks.options })
  } catch (error) {
    if (!(error instanceof RuleViolation)) throw error
    await given.graph.refresh()
    const named = error.violations.find((violation) => violation.rule === told)
    if (!named || given.graph.revision !== revision)
      throw new Error(`${rule} did not keep its promise`, { cause: error })
    return `${error.name}: ${named.message} [${named.rule}]`
  }
  throw new Error(`${rule} let it pass`)
}
