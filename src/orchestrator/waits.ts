import type { ActionRecord } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { rolesLeft } from '../psg/moves.ts'
import { isKind } from '../psg/node.ts'

/** Something that a run waits for. */
export interface Wait {
  readonly what: string
  readonly due?: number
  /** A decision that a person has to make, and who may who has not approved yet. */
  readonly decision?: { readonly confirm_id: string; readonly roles: readonly string[] | undefined }
  /** The name of a signal that somebody from outside has to give. */
  readonly signal?: string
}

/** What a plan's run waits for, as the graph has it. */
export function waitsOf(graph: ProjectGraph, plan: string): readonly Wait[] {
  const waits: Wait[] = []
  const timed = new Set<string>()
  const until = new Map<string, string>()
  const nodes = [...graph.state.nodesOf(plan)]
  for (const node of nodes) {
    if (isKind(node, 'confirm') && node.data.status === 'pending')
      waits.push({
        what: `the decision ${node.id}`,
        decision: { confirm_id: node.id, roles: rolesLeft(graph, node.id) },
      })
    if (!isKind(node, 'timer') || node.data.fired) continue
    const { purpose, due, target } = node.data
    if (purpose === 'timeout') until.set(target, due)
    else timed.add(target)
    if (purpose === 'retry' || purpose === 'wait') waits.push({ what: `${purpose} at ${due}`, due: Date.parse(due) })
  }
  for (const node of nodes)
    if (isKind(node, 'action') && !timed.has(node.id)) waits.push(...waitOf(graph, plan, node.data, until.get(node.id)))
  return waits
}

function waitOf(
  graph: ProjectGraph,
  plan: string,
  { action_id, step_id, status, attempts }: ActionRecord,
  until: string | undefined,
): readonly Wait[] {
  const step = stepNamed(graph, step_id)
  if (status === 'running') return [{ what: `the step “${step}”, attempt ${attempts}` }]
  if (status !== 'waiting' || [...graph.state.referrers('action', action_id, 'CONFIRMS')].length > 0) return []
  const signal = [...graph.state.referrers('step', step_id, 'BINDS')].flatMap((node) =>
    isKind(node, 'binding') && typeof node.data.params.signal === 'string' ? [node.data.params.signal] : [],
  )[0]
  if (signal === undefined) return [{ what: `the step “${step}”` }]
  return hasCome(graph, plan, signal)
    ? [{ what: `a worker to take in the signal ${signal}` }]
    : [{ what: `the signal ${signal}${until === undefined ? '' : ` until ${until}`}`, signal }]
}

/** Was it given already, and lies there? Who is told to give it again would have it done twice. */
function hasCome(graph: ProjectGraph, plan: string, signal: string): boolean {
  for (const { data } of graph.state.plan(plan)?.signals.values() ?? []) if (data.name === signal) return true
  return false
}

/** A step as people know it. */
export const stepNamed = (graph: ProjectGraph, step: string): string =>
  graph.get('step', step)?.data.description ?? step
