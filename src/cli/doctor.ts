import { readFile } from 'node:fs/promises'
import { openConfigured } from '../compose.ts'
import type { Config } from '../config.ts'
import type { Node } from '../psg/change.ts'
import { isKind } from '../psg/node.ts'
import { openProject, type Project } from '../psg/project.ts'
import type { Backend } from '../vsl/backend.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'

interface Check {
  readonly check: string
  readonly verdict: 'ok' | 'warning' | 'failed'
  readonly says: string
  readonly remedy?: string
}

export async function run({ io }: VerbCall): Promise<number> {
  const checks: Check[] = [nodeVersion(process.versions.node), await watches()]
  try {
    checks.push(...(await stored(await io.config())))
  } catch (error) {
    const says = error instanceof Error ? error.message : String(error)
    checks.push({ check: 'store', verdict: 'failed', says, remedy: 'mplp config print shows which store is meant' })
  }
  io.result(checks, () =>
    checks
      .map(({ check, verdict, says, remedy }) => {
        const colour = verdict === 'ok' ? 'green' : verdict === 'warning' ? 'yellow' : 'red'
        return `${io.paint(colour, verdict)} ${check}: ${says}${remedy === undefined ? '' : `\n  remedy: ${remedy}`}`
      })
      .join('\n'),
  )
  return checks.some(({ verdict }) => verdict === 'failed') ? EXIT.failed : EXIT.done
}

function nodeVersion(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 20 || (major === 20 && minor >= 19)
    ? { check: 'node', verdict: 'ok', says: version }
    : { check: 'node', verdict: 'failed', says: `${version} is too old`, remedy: 'install Node 20.19 or later' }
}

const ENOUGH_WATCHES = 65_536

/** Linux gives each user so many watched folders; elsewhere nobody counts. */
async function watches(): Promise<Check> {
  const text = await readFile('/proc/sys/fs/inotify/max_user_watches', 'utf8').catch(() => undefined) // not Linux
  if (text === undefined) return { check: 'watcher', verdict: 'ok', says: 'this system sets no limit' }
  const most = Number(text)
  return most >= ENOUGH_WATCHES
    ? { check: 'watcher', verdict: 'ok', says: `up to ${most} folders can be watched` }
    : {
        check: 'watcher',
        verdict: 'warning',
        says: `only ${most} folders can be watched`,
        remedy: `sysctl fs.inotify.max_user_watches=${ENOUGH_WATCHES * 8}`,
      }
}

async function stored(config: Config): Promise<readonly Check[]> {
  const store = await openConfigured(config)
  try {
    const project = await openProject(store)
    return [durability(store), ...(await runs(project)), ...(await questions(project))]
  } finally {
    await store.close()
  }
}

function durability({ traits: { durable, processes } }: Backend): Check {
  const says = `reachable, for ${processes === 'one' ? 'one process at a time' : 'many processes'}`
  return durable
    ? { check: 'store', verdict: 'ok', says: `${says}, and keeps what it has acknowledged` }
    : {
        check: 'store',
        verdict: 'warning',
        says: `${says}, but may lose what it has acknowledged`,
        remedy: 'Redis: appendonly yes and appendfsync always; memory: choose sqlite or postgres',
      }
}

/** What runs, and what each is waiting for. */
async function runs(project: Project): Promise<readonly Check[]> {
  const checks: Check[] = []
  for await (const [key, where] of project.store.scan('running/')) {
    const plan = key.slice('running/'.length)
    const graph = await project.context((where as { graph: string }).graph)
    await graph.load(plan)
    const nodes = [...graph.state.nodesOf(plan)]
    const steps = nodes.filter(
      (node): node is Node<'step'> => isKind(node, 'step') && node.data.status === 'in_progress',
    )
    const timers = nodes.filter((node): node is Node<'timer'> => isKind(node, 'timer') && !node.data.fired)
    const waits = [
      ...steps.map(({ data }) => `the step “${data.description}”`),
      ...timers.map(({ data }) => `${data.purpose} at ${data.due}`),
    ]
    checks.push({
      check: 'run',
      verdict: 'warning',
      says: `plan ${plan} goes on; it waits for ${waits.length === 0 ? 'a worker' : waits.join(', ')}`,
      remedy: 'if no worker runs: mplp resume, or mplp serve',
    })
  }
  return checks.length > 0 ? checks : [{ check: 'runs', verdict: 'ok', says: 'nothing is under way' }]
}

async function questions(project: Project): Promise<readonly Check[]> {
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
