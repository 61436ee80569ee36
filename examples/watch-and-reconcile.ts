// A folder and a graph, held against each other: an edit is noticed and shown, settled in each of the four ways, and a run is taken back.
// npx tsx examples/watch-and-reconcile.ts
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRuntime } from '../src/compose.ts'
import { fileId, type Strategy } from '../src/drift/drift.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import type { JsonObject } from '../src/protocol/json.ts'

const root = await mkdtemp(join(tmpdir(), 'mplp-example-'))
const at = (path: string) => join(root, path)
const edit = (path: string, text: string) => writeFile(at(path), text)
const LINES = 'one\ntwo\nthree\nfour\nfive\n'
for (const path of ['notes.md', 'guide.md', 'plan.md']) await edit(path, LINES)

const runtime = await openRuntime({
  vsl: 'memory:',
  bus: ['memory:'],
  root,
  drift: { watch: true },
  functions: {
    publish() {
      throw new Error('the site is down')
    },
  },
})
const folder = runtime.folder!
const [graph, tracker] = [await folder.graph(), await folder.tracker()]
const [bus] = runtime.buses
let heard: () => void = () => undefined
await bus!.transport.subscribe({ type: 'file_update' }, () => heard())
console.log(`watching ${(await readdir(root)).join(', ')}\n`)

await noticed('somebody edits notes.md', () => edit('notes.md', LINES.replace('two', 'TWO')))
await settled('ask', 'nothing is overwritten without a rule: there is a question')
const [question] = await runtime.waiting()
await runtime.decide(question!.confirm.confirm_id, { status: 'approved', decided_by_role: 'editor' })
await tracker.idle()
console.log(`      ${question!.confirm.reason}\n      approved; open findings: ${tracker.findings().length}\n`)

await noticed('somebody edits guide.md', () => edit('guide.md', 'all gone\n'))
await settled('graph', 'the file becomes what the graph has')
await noticed('somebody deletes guide.md', () => rm(at('guide.md')))
await settled('files', 'the graph takes what is on the disk')

const digest = await runtime.store.putBlob(Buffer.from(LINES.replace('five', 'FIVE')))
const other = { kind: 'node_update', node: 'file', id: fileId('plan.md'), set: { digest } } as const
await noticed('somebody edits the top of plan.md, an agent its end in the graph', async () => {
  await edit('plan.md', LINES.replace('one', 'ONE'))
  await graph.commit([other], { actor: 'agent', reason: 'wants another end of plan.md' })
})
await settled('merge', 'both sides’ changes')
console.log(`      plan.md now: ${JSON.stringify(await readFile(at('plan.md'), 'utf8'))}\n`)

console.log('a plan writes three files and fails; nobody asked it to clean up after itself')
const run = await failing()
console.log(`      files: ${(await readdir(root)).join(', ')}`)
const { plan } = await runtime.rollback(run, { dryRun: true })
console.log(
  `      a rollback would bring back: ${plan.files.map(({ path, before }) => (before ? path : `no ${path}`)).join(', ')}`,
)
const report = await runtime.rollback(run)
console.log(
  `      ${report.status}; files: ${(await readdir(root)).join(', ')}; open findings: ${(await tracker.scan()).findings.length}`,
)
const files = (await graph.query({ kind: 'file' })).nodes.map(({ data }) => data.path).sort()
const ended = await graph.require('plan', (await graph.require('run', run)).data.plan_id)
console.log(`      the graph again has ${files.join(', ')}; the plan stays ${ended.data.status}`)
console.log(`      notes.md begins with ${JSON.stringify((await readFile(at('notes.md'), 'utf8')).slice(0, 7))}`)

await runtime.close()
await rm(root, { recursive: true })

/** Does something to the disk and waits until the tracker has said what it is. */
async function noticed(what: string, change: () => Promise<void>): Promise<void> {
  await tracker.idle()
  const told = new Promise<void>((resolve) => {
    heard = resolve
  })
  const began = performance.now()
  await change()
  await told
  for (const { what: kind, path, severity, diff } of tracker.findings()) {
    console.log(`${what}: ${kind} ${path} (${severity}), seen after ${Math.round(performance.now() - began)} ms`)
    console.log((diff ?? '').replaceAll(/^/gm, '      ').trimEnd())
  }
}

async function settled(strategy: Strategy, means: string): Promise<void> {
  for (const { outcome, finding } of await tracker.reconcile('all', strategy))
    console.log(`  ${strategy}: ${means}: ${outcome} (${finding.path})`)
}

async function failing(): Promise<string> {
  const file = (params: JsonObject) => ({ action_type: 'file_operation', params })
  const { flow } = flowOf({
    title: 'Publish',
    objective: 'To have it out',
    context: graph.id, // the folder's own, so that what the run did to files goes back by what the graph knows of them
    steps: {
      edit: file({ operation: 'write', path: 'notes.md', content: 'by the run\n' }),
      add: { dependencies: ['edit'], ...file({ operation: 'write', path: 'new.md', content: 'by the run\n' }) },
      remove: { dependencies: ['add'], ...file({ operation: 'delete', path: 'plan.md' }) },
      publish: { dependencies: ['remove'], action_type: 'function', params: { name: 'publish' } },
    },
  })
  const handle = await runtime.submit(flow)
  const { status, error } = await handle.result()
  console.log(`      the run has ${status}: ${String(error?.message)}`)
  return handle.run_id
}
