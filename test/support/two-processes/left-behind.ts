import type { AnyNode, Run } from '../../../src/psg/change.ts'
import { isKind } from '../../../src/psg/node.ts'
import { openProject } from '../../../src/psg/project.ts'
import type { Entry } from '../../../src/vsl/backend.ts'
import { crowded, lostCancel, notHeld, notTakenBack, untold } from './journal.ts'
import type { World } from './world.ts'

/** What is wrong with the store when both runs have ended, or hang: nothing, if every promise was kept. */
export async function leftBehind(world: World): Promise<readonly string[]> {
  const { store, clock, context, flows, cancelHeard } = world
  const entries: Entry[] = []
  for await (const entry of store.read(context)) entries.push(entry)
  if (entries.length === 0) return ['nothing was submitted']
  const graph = await (await openProject(store, { clock })).context(context)
  const nodesOf = async (plan: string) => {
    await graph.load(plan)
    return [...graph.state.nodesOf(plan)]
  }
  const main = await nodesOf(flows.main.plan.plan_id)
  const beside = await nodesOf(flows.beside.plan.plan_id)
  const [run, runBeside] = [runIn(main), runIn(beside)]
  const findings = await graph.verify()
  return [
    ...findings.map(({ message }) => `unsound: ${message}`),
    ...untold(entries),
    ...[...main, ...beside].flatMap(stillOpen),
    ...(await rowsLeft(world)),
    ...wrongEnd(run, world),
    ...(runBeside?.result?.status === 'completed' ? [] : ['the run beside did not complete']),
    ...(run ? lostCancel(entries, run, cancelHeard) : []),
    ...(run ? notTakenBack(entries, run) : []),
    ...[run, runBeside].flatMap((one) => (one ? [...notHeld(entries, one), ...crowded(entries, one)] : [])),
  ]
}

const runIn = (nodes: readonly AnyNode[]): Run | undefined => nodes.find((node) => isKind(node, 'run'))?.data

function stillOpen(node: AnyNode): readonly string[] {
  if (isKind(node, 'timer') && !node.data.fired) return [`a timer for ${node.data.purpose} is open`]
  if (isKind(node, 'confirm') && node.data.status === 'pending') return ['a question is open']
  if (!isKind(node, 'action')) return []
  const { action_type, status, began = [], ended = [] } = node.data
  return [
    ...(status === 'running' || status === 'waiting' ? [`an action ${action_type} is ${status}`] : []),
    ...(began.length === ended.length
      ? []
      : [`an action ${action_type} began ${began.length} and ended ${ended.length} times`]),
  ]
}

/** Rows by which others find what is to be done. */
async function rowsLeft({ store }: World): Promise<readonly string[]> {
  const faults: string[] = []
  for (const prefix of ['running/', 'resting/', 'waiting/', 'timer/'])
    for await (const [key] of store.scan(prefix)) faults.push(`the row ${key} is left`)
  return faults
}

/** A run ends only for a reason that there was. */
function wrongEnd(run: Run | undefined, { flows, wished }: World): readonly string[] {
  const { status, error } = (run?.result ?? {}) as { status?: string; error?: { code: string } }
  const reasons: { readonly [end: string]: boolean } = {
    completed: !flows.fails,
    'failed action_failed': flows.fails,
    'failed action_rejected': wished.has('reject'),
    'failed deadline': flows.hasDeadline,
    'cancelled deadline': flows.hasDeadline && flows.asksFirst,
    'cancelled approval_expired': flows.asksFirst,
    'cancelled cancelled': wished.has('cancel'),
  }
  const end = error ? `${status} ${error.code}` : String(status)
  return reasons[end] ? [] : [`the run ended ${end} without a reason`]
}
