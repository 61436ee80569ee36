/**
 * `npm start`: a whole life in a few seconds, on SQLite in a new folder. A plan with a tool, a (scripted) model, a file and an approval; a file that a
 * person and an agent change at once; a plan that fails and takes back what it did. `npm start -- --ask` lets you decide yourself.
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { type ComposedRuntime, openRuntime } from '../src/compose.ts'
import { fileId } from '../src/drift/drift.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import { mermaid } from '../src/psg/picture.ts'
import { eventsIn } from '../src/psg/told.ts'

const ask = process.argv.includes('--ask')
const say = (text: string) => console.log(text)
let acts = 0
const headline = (text: string) => say(`\n${++acts}. ${text}`)

const folder = await mkdtemp(join(tmpdir(), 'mplp-demo-'))
const root = join(folder, 'project')
await mkdir(root)
const shelf = new Set<string>()
const runtime = await openRuntime({
  vsl: `sqlite:${join(folder, 'state.db')}`,
  root,
  models: { writer: { provider: 'scripted', replies: ['Sales rose by 12 %.\nThe north did best.'] } },
  tools: [
    {
      name: 'sales.read',
      description: 'Last quarter’s figures',
      input: { type: 'object' },
      readOnly: true,
      execute: () => ({ north: 120, south: 90 }),
    },
    {
      name: 'report.publish',
      description: 'Makes the report public',
      input: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
      policy: 'ask',
      execute: ({ path }) => `published ${String(path)}`,
    },
    {
      name: 'shop.reserve',
      description: 'Puts an item aside',
      input: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
      effect: 'reversible',
      inverse: (args) => ({ tool_name: 'shop.release', tool_args: args }),
      execute: ({ item }) => void shelf.add(String(item)),
    },
    {
      name: 'shop.release',
      description: 'Puts it back',
      input: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
      execute: ({ item }) => void shelf.delete(String(item)),
    },
    {
      name: 'shop.charge',
      description: 'Takes the money',
      input: { type: 'object' },
      execute: () => {
        throw new Error('the card was declined')
      },
    },
  ],
})

headline('A plan: read figures, have a model write, put it into a file, publish it once somebody agrees')
const report = flowOf({
  title: 'Quarterly report',
  steps: {
    read: { action_type: 'tool_call', params: { tool_name: 'sales.read', tool_args: {} } },
    write: {
      dependencies: ['read'],
      action_type: 'llm_call',
      params: { model: 'scripted', messages: [{ role: 'user', content: 'Sum up the quarter' }] },
    },
    save: {
      action_type: 'file_operation',
      params: { operation: 'write', path: 'report.md', content: { $from: 'write', path: 'text' } },
    },
    publish: {
      dependencies: ['save'],
      action_type: 'tool_call',
      params: { tool_name: 'report.publish', tool_args: { path: 'report.md' } },
    },
  },
})
const run = await runtime.submit(report.flow)
while ((await run.rest()) === 'waiting') await answer(runtime)
say(
  `the plan is ${(await run.result()).status}; report.md says: ${(await readFile(join(root, 'report.md'), 'utf8')).replaceAll('\n', ' / ')}`,
)

headline('Behind the runtime’s back a person edits the file, while an agent has another edit in the graph')
const files = await runtime.folder!.graph()
const tracker = await runtime.folder!.tracker()
const text = await readFile(join(root, 'report.md'), 'utf8')
await writeFile(join(root, 'report.md'), `# The quarter\n\n${text}`)
const edited = new TextEncoder().encode(`${text}\nWritten by an agent.\n`)
const digest = await runtime.store.putBlob(edited)
await files.commit(
  [{ kind: 'node_update', node: 'file', id: fileId('report.md'), set: { digest, size: edited.length } }],
  { actor: 'agent', reason: 'adds a line at the end' },
)
const [finding] = (await tracker.scan()).findings
say(`noticed: ${finding?.path} was ${finding?.what}`)
const [merged] = await tracker.reconcile(['report.md'], 'merge')
say(`${merged?.outcome}: ${(await readFile(join(root, 'report.md'), 'utf8')).trim().replaceAll('\n', ' / ')}`)

headline('A plan that fails takes back what it did')
const order = flowOf({
  title: 'An order',
  steps: {
    reserve: { action_type: 'tool_call', params: { tool_name: 'shop.reserve', tool_args: { item: 'lamp' } } },
    charge: {
      dependencies: ['reserve'],
      action_type: 'tool_call',
      params: { tool_name: 'shop.charge', tool_args: {} },
      on_failure: 'compensate',
    },
  },
})
const failed = await (await runtime.submit(order.flow)).result()
say(
  `the plan ${failed.status}: ${String(failed.error?.message)}; still put aside: ${[...shelf].join(', ') || 'nothing'}`,
)

headline('What is left: one graph, from intent to file')
const graph = await runtime.project.context(run.context_id)
say(
  mermaid(graph.state, { plan: run.plan_id })
    .split('\n')
    .filter((line) => !line.includes('classDef'))
    .join('\n'),
)
const counts = new Map<string, number>()
for await (const entry of runtime.store.feed())
  for (const { event } of eventsIn(entry)) {
    const family =
      typeof event.event_family === 'string'
        ? event.event_family
        : event.event_type.startsWith('SA')
          ? 'SA profile'
          : 'other'
    counts.set(family, (counts.get(family) ?? 0) + 1)
  }
say(`\nevents: ${[...counts].map(([family, count]) => `${count} ${family}`).join(', ')}`)
const orders = await runtime.project.context(order.flow.plan.context_id)
const wrong = (await Promise.all([graph, files, orders].map((one) => one.verify()))).flat()
say(`the store holds together: ${wrong.length === 0 ? 'yes' : wrong.map(({ message }) => message).join('; ')}`)
const store = `--store sqlite:${join(folder, 'state.db')}`
say(
  `\nlook further:\n  npm run -s mplp -- ${store} why ${report.flow.plan.steps.at(-1)?.step_id}\n  npm run -s mplp -- ${store} history ${run.plan_id}\n  npm run -s mplp -- ${store} events --family pipeline_stage\n  npm run -s mplp -- ${store} evidence export ${run.plan_id} ${join(folder, 'evidence')}`,
)
await runtime.close()
say(`\nstate folder: ${folder}`)

/** Decides what waits: by itself, or with `--ask` by you. */
async function answer(runtime: ComposedRuntime): Promise<void> {
  for (const { confirm } of await runtime.waiting()) {
    const yes = ask ? await asked(`${confirm.reason} [y/n] `) : true
    say(`${confirm.reason} ${yes ? 'approved' : 'rejected'}${ask ? '' : ' (by the demo; --ask lets you decide)'}`)
    await runtime.decide(confirm.confirm_id, { status: yes ? 'approved' : 'rejected', decided_by_role: 'lead' })
  }
}

async function asked(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const gone = once(terminal, 'close').then(() => '') // Ctrl-D, or nobody there to ask: that is no yes
  const text = await Promise.race([terminal.question(question), gone])
  terminal.close()
  return /^y/i.test(text.trim())
}
