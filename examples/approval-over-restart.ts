// A plan that waits for a person while no process lives. Each act is a process of its own: they share nothing but the store.
// npx tsx examples/approval-over-restart.ts
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { actionLayer } from '../src/ael/ael.ts'
import { functionAdapter } from '../src/ael/function.ts'
import { flowOf } from '../src/orchestrator/named-flow.ts'
import { createRuntime, type Runtime } from '../src/orchestrator/runtime.ts'
import type { Flow } from '../src/orchestrator/submit.ts'
import { sqliteBackend } from '../src/vsl/sqlite.ts'

const [act, folder = ''] = process.argv.slice(2)

const ACTS: { readonly [act: string]: (runtime: Runtime) => Promise<void> } = {
  async submit(runtime) {
    const run = await runtime.submit(migration())
    console.log(`submitted: the plan is ${await statusOf(runtime, run.plan_id)}, and this process ends`)
  },
  async decide(runtime) {
    const [question] = await runtime.waiting()
    if (!question?.plan_id) throw new Error('nothing waits')
    console.log(`asked: ${question.confirm.reason}`)
    await runtime.decide(question.confirm.confirm_id, {
      status: 'approved',
      decided_by_role: 'dba',
      reason: 'backup made',
    })
    const { status, outputs } = await (await runtime.get(question.plan_id)).result()
    console.log(`approved: the plan is ${status}: ${Object.values(outputs).join(', ')}`)
  },
}

if (act === undefined) await allActs()
else await inStore(folder, ACTS[act]!)

async function allActs(): Promise<void> {
  const store = await mkdtemp(join(tmpdir(), 'mplp-approval-'))
  for (const name of Object.keys(ACTS)) await processOf(name, store)
  await rm(store, { recursive: true })
}

/** The same file again, as another process. */
function processOf(name: string, store: string): Promise<void> {
  const child = spawn(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), name, store], {
    stdio: 'inherit',
  })
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`${name} ended with ${code}`))))
  })
}

async function inStore(path: string, play: (runtime: Runtime) => Promise<void>): Promise<void> {
  const store = await sqliteBackend({ path: join(path, 'state.db') })
  const layer = actionLayer({ adapters: [functionAdapter({ migrate: (table) => `${table} migrated` })] })
  const runtime = await createRuntime({ store, layer })
  await play(runtime)
  await runtime.close()
  await layer.close()
  await store.close()
}

function migration(): Flow {
  const migrate = (table: string) => ({ action_type: 'function', params: { name: 'migrate', args: table } })
  const { flow } = flowOf({
    title: 'Migrate',
    objective: 'New columns',
    context: { title: 'Production', root: { domain: 'db', environment: 'prod' } },
    steps: { users: migrate('users'), orders: { ...migrate('orders'), dependencies: ['users'] } },
    approval: {
      roles: ['dba'],
      requested_by_role: 'developer',
      reason: 'This changes two tables of the production database',
    },
  })
  return flow
}

async function statusOf({ project }: Runtime, plan: string): Promise<string> {
  const where = await project.locate(plan)
  return (await (await project.context(where!.graph)).document('plan', plan)).status
}
