/**
 * `npm run golden:mutants`: switches off one rule at a time by its id, in the real code path, and shows that a golden flow which names it fails. An
 * allowed arrow of a lifecycle is forbidden, a forbidden one allowed, an event is not told. The last line is JSON: mutants, killed, survivors.
 */
import { fileURLToPath } from 'node:url'
import { type GoldenFlow, readFlows } from '../src/golden/flow.ts'
import { inMemory, ownDriver } from '../src/golden/own-driver.ts'
import { runFlow } from '../src/golden/run-flow.ts'
import { type LifecycleKind, lifecycles, moveRule, statusesOf } from '../src/protocol/lifecycle.ts'
import { FOLDING, RULES } from '../src/psg/rules.ts'
import { memoryBackend } from '../src/vsl/memory.ts'

/** Why a mutant is not expected to be noticed by a golden flow; each is held by the tests named. */
const FOLDED = 'cannot be switched off: without it the change means nothing; test/psg holds it'
const BEYOND = 'no verb of a script reaches it; test/psg/rules.test.ts breaks it and sees the refusal'
const EXCUSED: { readonly [id: string]: string } = {
  lifecycle: 'stands for all arrows, each of which is a mutant of its own',
  'id.unique': FOLDED,
  'node.exists': FOLDED,
  'node.deleted': FOLDED,
  'edge.unique': FOLDED,
  'edge.exists': FOLDED,
  'plan.has_steps': 'the schema refuses it first; it guards what is added step by step',
  'reference.role': `only in strict mode; ${BEYOND}`,
  'graph.place': BEYOND,
  'module.area': BEYOND,
  'run.single': BEYOND,
  'owner.fence': BEYOND,
  'approval.proposed': BEYOND,
  'approval.used': BEYOND,
  'approval.action': BEYOND,
  'lifecycle.plan.approved->cancelled':
    'the cancelling of an approved plan that has not started is a race that no script can order',
  'lifecycle.confirm.rejected->approved': 'a second decision without proposing again; test/psg/lifecycle holds it',
}

const flows = await readFlows(fileURLToPath(new URL('../golden-flows', import.meta.url)))
const survivors: { id: string; reason: string }[] = []
let killed = 0
const mutants = [...ruleIds(), ...arrows(), 'event.pipeline_stage', 'event.graph_update'].filter(
  (id) => !(id in EXCUSED),
)
for (const [i, id] of mutants.entries()) {
  const fate = await mutate(
    id,
    flows.filter((flow) => flow.rules.includes(id)),
  )
  if (fate === undefined) killed++
  else {
    survivors.push({ id, reason: fate })
    console.error(`survived ${id}: ${fate}`)
  }
  if (process.stderr.isTTY) process.stderr.write(`\r${i + 1} of ${mutants.length}`)
}
console.log(
  JSON.stringify({
    mutants: mutants.length,
    killed,
    excused: Object.keys(EXCUSED).length,
    survivors: survivors.length,
  }),
)
process.exitCode = survivors.length === 0 ? 0 : 1

/** `undefined` when some flow noticed. */
async function mutate(id: string, naming: readonly GoldenFlow[]): Promise<string | undefined> {
  if (naming.length === 0) return 'no flow names it'
  const driver = ownDriver({
    switched: new Set([id]),
    open: async () => inMemory(memoryBackend()),
  })
  for (const flow of naming) if ((await within(runFlow(flow, driver, 'memory'))) !== 'passed') return undefined
  return `passes ${naming.map(({ name }) => name).join(', ')}`
}

/** A mutant may hang: that is noticed too. */
async function within(run: ReturnType<typeof runFlow>): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  const hang = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, 5_000, 'hangs')
  })
  const fate = await Promise.race([run.then(({ status }) => status), hang])
  clearTimeout(timer)
  return fate
}

function ruleIds(): readonly string[] {
  return [...RULES, ...FOLDING].map(({ id }) => id)
}

function arrows(): readonly string[] {
  const kinds = (Object.keys(lifecycles) as LifecycleKind[]).filter((kind) => kind !== 'segment') // segments end by a node of their own
  return kinds.flatMap((kind) =>
    statusesOf(kind).flatMap((from) =>
      statusesOf(kind).flatMap((to) => (from === to ? [] : [moveRule(kind, from as never, to as never)])),
    ),
  )
}
