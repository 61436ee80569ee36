import { type Clock, systemClock } from '../protocol/clock.ts'
import type { ActionRecord, EntryBody, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import type { Project } from '../psg/project.ts'
import type { Check } from './doctor.ts'

export interface RunChecks {
  readonly clock?: Clock
  readonly onProgress?: (line: string) => void
}

/** Nothing was committed for this long, and nothing that is waited for explains it. */
const QUIET_MS = 60_000

/** Every run that has not ended, and what each is waiting for. */
export async function checkRuns(project: Project, options: RunChecks = {}): Promise<readonly Check[]> {
  const { clock = systemClock, onProgress = () => undefined } = options
  const checks: Check[] = []
  let contexts = 0
  for await (const [key] of project.store.scan('id/context/')) {
    onProgress(`${++contexts} contexts`)
    const context = key.slice('id/context/'.length)
    const graph = await project.context(context)
    for (const run of graph.state.activeRuns()) checks.push(await checkRun(graph, run, clock))
    project.forget(context)
  }
  return checks.length > 0 ? checks : [{ check: 'runs', verdict: 'ok', says: 'none is under way' }]
}

async function checkRun(graph: ProjectGraph, run: Node<'run'>, clock: Clock): Promise<Check> {
  const { plan_id, phase, requested } = run.data
  const waits = waitsOf(graph, plan_id)
  const wish = requested === undefined ? '' : `, and is to ${requested}`
  const says = `plan ${plan_id} is ${phase}${wish}; it waits for ${waits.length === 0 ? 'a worker' : waits.map(({ what }) => what).join(', ')}`
  const remedy = waits.find((wait) => wait.remedy !== undefined)?.remedy
  if (phase === 'paused') return { check: 'run', verdict: 'warning', says, remedy: `POST /runs/${plan_id}/resume` }
  if (remedy !== undefined) return { check: 'run', verdict: 'warning', says, remedy }
  const quietMs = clock.now() - (await lastHeardOf(graph))
  const isTimely = waits.length > 0 && waits.every(({ due = Number.NEGATIVE_INFINITY }) => due > clock.now())
  if (quietMs < QUIET_MS || isTimely) return { check: 'run', verdict: 'ok', says }
  return {
    check: 'run',
    verdict: 'warning',
    says: `${says}; nothing has happened for ${Math.round(quietMs / 1000)} s`,
    remedy: 'if no worker runs: mplp resume, or mplp serve',
  }
}

interface Wait {
  readonly what: string
  readonly due?: number
  /** Of what only somebody from outside can give. */
  readonly remedy?: string
}

function waitsOf(graph: ProjectGraph, plan: string): readonly Wait[] {
  const waits: Wait[] = []
  const timed = new Set<string>()
  const nodes = [...graph.state.nodesOf(plan)]
  for (const node of nodes) {
    if (isKind(node, 'confirm') && node.data.status === 'pending')
      waits.push({ what: `the decision ${node.id}`, remedy: `mplp confirm approve ${node.id}, or reject` })
    if (!isKind(node, 'timer') || node.data.fired) continue
    const { purpose, due, target } = node.data
    timed.add(target)
    if (purpose === 'retry' || purpose === 'wait') waits.push({ what: `${purpose} at ${due}`, due: Date.parse(due) })
  }
  for (const node of nodes)
    if (isKind(node, 'action') && !timed.has(node.id)) waits.push(...waitOf(graph, plan, node.data))
  return waits
}

function waitOf(
  graph: ProjectGraph,
  plan: string,
  { action_id, step_id, status, attempts }: ActionRecord,
): readonly Wait[] {
  const step = graph.get('step', step_id)?.data.description ?? step_id
  if (status === 'running') return [{ what: `the step “${step}”, attempt ${attempts}` }]
  if (status !== 'waiting' || [...graph.state.referrers('action', action_id, 'CONFIRMS')].length > 0) return []
  const signal = [...graph.state.referrers('step', step_id, 'BINDS')].flatMap((node) =>
    isKind(node, 'binding') && typeof node.data.params.signal === 'string' ? [node.data.params.signal] : [],
  )[0]
  return signal === undefined
    ? [{ what: `the step “${step}”` }]
    : [{ what: `the signal ${signal}`, remedy: `POST /runs/${plan}/signal with the name ${signal}` }]
}

/** When anything was last committed to the context. */
async function lastHeardOf(graph: ProjectGraph): Promise<number> {
  for await (const { body } of graph.store.read(graph.id, { after: graph.revision - 1 }))
    return Date.parse((body as unknown as EntryBody).at)
  return 0
}

/** What waits for a person. */
export async function checkQuestions(project: Project): Promise<readonly Check[]> {
  const checks: Check[] = []
  for await (const [key, where] of project.store.scan('waiting/')) {
    const id = key.slice('waiting/'.length)
    const { graph, group } = where as { graph: string; group: string }
    const context = await project.context(graph)
    await context.load(group)
    const confirm = context.get('confirm', id)?.data
    checks.push({
      check: 'confirm',
      verdict: 'warning',
      says: `${id} waits for a person since ${confirm?.requested_at}: ${confirm?.reason ?? confirm?.target_type}`,
      remedy: `mplp confirm approve ${id}, or reject`,
    })
  }
  return checks
}
