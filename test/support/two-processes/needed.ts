import type { AnyNode } from '../../../src/psg/change.ts'
import { isKind } from '../../../src/psg/node.ts'
import { openProject } from '../../../src/psg/project.ts'
import type { Wish } from './temper.ts'
import type { World } from './world.ts'

/** What somebody has to do so that the runs can come to their end, if anybody has to. What has been done already is not done again: that might heal. */
export async function needed({ store, clock, context, plan }: World): Promise<Wish | undefined> {
  const graph = await (await openProject(store, { clock })).context(context)
  await graph.load(plan)
  const nodes = [...graph.state.nodesOf(plan)]
  const run = nodes.find((node) => isKind(node, 'run'))?.data
  if (graph.get('context', context)?.data.status === 'suspended') return 'activate'
  if (!run || run.phase === 'ended') return undefined
  if (run.phase === 'paused' && !run.requested) return 'resume'
  if (graph.get('plan', plan)?.data.status === 'draft') return 'propose'
  if (nodes.some((node) => isKind(node, 'confirm') && node.data.status === 'pending')) return 'decide'
  return awaitsSignal(nodes) ? 'signal' : undefined
}

/** A step that waits, and not for a time, and nobody has sent what it waits for. */
function awaitsSignal(nodes: readonly AnyNode[]): boolean {
  if (nodes.some((node) => isKind(node, 'signal') && !node.data.taken)) return false
  const timed = new Set(nodes.flatMap((node) => (isKind(node, 'timer') ? node.data.target : [])))
  return nodes.some(
    (node) =>
      isKind(node, 'action') &&
      node.data.action_type === 'wait' &&
      node.data.status === 'waiting' &&
      !timed.has(node.id),
  )
}
