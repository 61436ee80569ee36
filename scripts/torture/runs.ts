import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { systemClock } from '../../src/protocol/clock.ts'
import type { EntryBody } from '../../src/psg/change.ts'
import { isFieldChange } from '../../src/psg/field-change.ts'
import { openProject } from '../../src/psg/project.ts'
import { openStore } from '../../src/vsl/vsl.ts'
import { child } from '../../test/support/child.ts'
import { flowOf } from '../../test/support/flows.ts'
import { startServers } from '../../test/support/start-servers.ts'

export interface RunsReport {
  readonly kills: number
  readonly steps: number
  /** Steps with a committed end that ran again: must be 0. */
  readonly repeated: number
  /** Calls beyond one per step: each belongs to a step that had no committed end at a kill. */
  readonly extra: number
  /** Steps whose status, output or number of ends differ from an undisturbed run: must be 0. */
  readonly different: number
  readonly status: string
}

/** Runs a plan on a store whose worker is killed with SIGKILL at random, over and over, and compares the end with what must be. */
export async function tortureRuns(
  url: string,
  options: { kills: number; steps: number; seed: number },
): Promise<RunsReport> {
  const folder = mkdtempSync(join(tmpdir(), 'mplp-torture-'))
  const ledger = join(folder, 'ledger.ndjson')
  const flowFile = join(folder, 'flow.json')
  writeFileSync(ledger, '')
  const random = seeded(options.seed)
  const flow = layeredFlow(options.steps, random)
  writeFileSync(flowFile, JSON.stringify(flow))
  const { plan_id, context_id } = flow.plan
  const store = await openStore(url)
  let [kills, repeated, read] = [0, 0, 0]
  let done = new Set<string>()
  try {
    for (let life = 0; ; life++) {
      const worker = child(new URL('runs-child.ts', import.meta.url), [
        url,
        plan_id,
        ledger,
        ...(life === 0 ? [flowFile] : []),
      ])
      await worker.line('up')
      const left = options.steps - done.size
      const share = Math.min((random() * 2 * left) / (options.kills - kills), left - 1) // or the run would end before the last kill
      const ended = await Promise.race([
        worker.exited.then(() => true),
        ...(kills < options.kills ? [grown(ledger, read + share).then(() => false)] : []),
      ])
      if (!ended) {
        await systemClock.sleep(random() * 3)
        await worker.kill()
        kills++
      }
      const calls = linesOf(ledger).slice(read)
      for (const line of calls) if (done.has(JSON.parse(line).key.split(':')[1])) repeated++
      read += calls.length
      done = await completed(store, context_id)
      if (ended) break
    }
    const { different: others, status } = await compare(store, flow)
    const different = others + options.steps - done.size // a step whose end the journal does not tell is one too
    return { kills, steps: options.steps, repeated, extra: read - options.steps, different, status }
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

/** `npm run torture -- runs --kills 100 [--steps 1000] [--backend sqlite] [--seed 1]`. */
export async function run(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      kills: { type: 'string', default: '100' },
      steps: { type: 'string', default: '1000' },
      seed: { type: 'string', default: '1' },
      backend: { type: 'string' },
    },
  })
  const [kills, steps, seed] = [Number(values.kills), Number(values.steps), Number(values.seed)]
  const servers = await startServers({ redis: true, postgres: true })
  const folder = mkdtempSync(join(tmpdir(), 'mplp-torture-'))
  const urls: { [backend: string]: string | undefined } = {
    sqlite: `sqlite:${join(folder, 'state.db')}`,
    redis: servers.redis?.url,
    postgres: servers.postgres?.url,
  }
  const reports: { [backend: string]: RunsReport } = {}
  try {
    for (const [backend, url] of Object.entries(urls)) {
      if (url === undefined || (values.backend !== undefined && values.backend !== backend)) continue
      reports[backend] = await tortureRuns(url, { kills, steps, seed })
      console.error(`${backend}: ${JSON.stringify(reports[backend])}`)
    }
  } finally {
    await servers.stop()
    rmSync(folder, { recursive: true })
  }
  console.log(JSON.stringify(reports))
  return Object.values(reports).every(
    ({ repeated, different, status }) => repeated === 0 && different === 0 && status === 'completed',
  )
}

const linesOf = (ledger: string): readonly string[] => readFileSync(ledger, 'utf8').split('\n').filter(Boolean)

/** Until the worker has done so much, all lives together. */
async function grown(ledger: string, calls: number): Promise<void> {
  while (linesOf(ledger).length < calls) await systemClock.sleep(1)
}

type Store = Awaited<ReturnType<typeof openStore>>

async function completed(store: Store, context: string): Promise<Set<string>> {
  const done = new Set<string>()
  for await (const entry of store.read(context)) {
    const { changes } = entry.body as unknown as EntryBody
    for (const change of changes)
      if (isFieldChange(change) && change.now.status === 'completed' && change.key.includes('/step/'))
        done.add(change.key.split('/').at(-1)!)
  }
  return done
}

async function compare(
  store: Store,
  flow: ReturnType<typeof layeredFlow>,
): Promise<{ different: number; status: string }> {
  const project = await openProject(store)
  const graph = await project.context(flow.plan.context_id)
  await graph.load(flow.plan.plan_id)
  const plan = await graph.document('plan', flow.plan.plan_id)
  const findings = await graph.verify()
  let different = findings.length
  for (const [i, step] of plan.steps.entries()) {
    const { dependencies, step_id } = flow.plan.steps[i]!
    const record = [...graph.state.referrers('step', step_id, 'EXECUTES')].filter((node) => node.kind === 'action')
    const output = record.length === 1 && record[0]!.kind === 'action' ? JSON.stringify(record[0]!.data.output) : 'none'
    const same =
      step.status === 'completed' &&
      step.step_id === step_id &&
      JSON.stringify(step.dependencies) === JSON.stringify(dependencies) &&
      output === JSON.stringify({ square: i * i })
    if (!same) different++
  }
  return { different, status: plan.status }
}

/** Steps in layers of up to five, each waiting for some of the layer before. */
function layeredFlow(steps: number, random: () => number) {
  const spec: Record<
    string,
    { after?: string[]; call: string; binding: { params: { name: string; args: { n: number } } } }
  > = {}
  let before: string[] = []
  let layer: string[] = []
  for (let n = 0; n < steps; n++) {
    const after = before.filter(() => random() < 0.5)
    spec[`s${n}`] = {
      call: 'work',
      ...(after.length > 0 && { after }),
      binding: { params: { name: 'work', args: { n } } },
    }
    layer.push(`s${n}`)
    if (layer.length > random() * 5) {
      before = layer
      layer = []
    }
  }
  return flowOf(spec, { options: { concurrency: 4 } })
}

const seeded = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 4294967296
  }
}
