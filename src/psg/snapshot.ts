import { isoMicros } from '../protocol/clock.ts'
import { InvalidInput, NotFound } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { Change, CommitOptions, EntryBody, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { entriesOf } from './history.ts'
import { isKind } from './node.ts'
import { type Restoration, restoration } from './restore.ts'

/** Gives the revision a name. Costs one small node: the past is in the journal anyway. */
export async function takeSnapshot(
  graph: ProjectGraph,
  name: string,
  options: CommitOptions & { readonly plan_id?: string },
): Promise<Node<'snapshot'>> {
  const snapshot_id = graph.clock.uuid()
  const { plan_id } = options
  const data = {
    snapshot_id,
    name,
    revision: graph.revision,
    taken_at: isoMicros(graph.clock.now() * 1000),
    ...(plan_id !== undefined && { plan_id }),
  }
  await graph.commit([{ kind: 'node_add', node: 'snapshot', id: snapshot_id, group: '-', data }], options)
  return graph.get('snapshot', snapshot_id)!
}

export interface RestoreOptions extends CommitOptions {
  /** A revision, or the id or name of a snapshot. */
  readonly to: number | string
  /** Take back what this run did, and nothing else. Without it, everything since, which is refused while something runs. */
  readonly of?: string
  /** Only say what would be done. */
  readonly dryRun?: boolean
}

/** Goes back by going forward: commits what undoes the chosen entries. Conflicts are listed and left alone. */
export async function restore(graph: ProjectGraph, options: RestoreOptions): Promise<Restoration> {
  const { to, of, dryRun, ...commit } = options
  const revision = typeof to === 'number' ? to : snapshotOf(graph, to).data.revision
  if (of === undefined) refuseWhileRunning(graph)
  const entries: { revision: number; body: EntryBody }[] = []
  for await (const entry of entriesOf(graph, revision)) entries.push(entry)
  for (const group of groupsOf(entries)) await graph.load(group)
  const way = restoration(entries, graph.state, (body) => of === undefined || body.run === of)
  if (!dryRun && way.changes.length > 0) await graph.commit(way.changes, commit)
  return way
}

/** A copy of a plan as a new draft: new ids, pending steps, the same bindings. Where a failed or completed plan can begin anew. */
export async function forkPlan(graph: ProjectGraph, planId: string, options: CommitOptions): Promise<Node<'plan'>> {
  const plan = await graph.require('plan', planId)
  const { uuid } = graph.clock
  const plan_id = uuid()
  const steps = [...graph.state.targets('plan', planId, 'CONTAINS')].filter((node) => isKind(node, 'step'))
  const ids = new Map(steps.map((step) => [step.id, uuid()]))
  const renamed = (id: string) => ids.get(id) ?? id
  const { trace: _, events: __, ...head } = plan.data
  const changes: Change[] = [
    { kind: 'node_add', node: 'plan', id: plan_id, data: { ...head, plan_id, status: 'draft' } },
  ]
  for (const step of steps) {
    const { dependencies } = step.data
    const data = {
      ...step.data,
      step_id: renamed(step.id),
      status: 'pending' as const,
      ...(dependencies && { dependencies: dependencies.map(renamed) }),
    }
    changes.push({
      kind: 'node_add',
      node: 'step',
      id: data.step_id,
      owner: plan_id,
      ...(step.at !== undefined && { at: step.at }),
      data,
    })
    for (const binding of graph.state.referrers('step', step.id, 'BINDS')) {
      if (!isKind(binding, 'binding')) continue
      const binding_id = uuid()
      changes.push({
        kind: 'node_add',
        node: 'binding',
        id: binding_id,
        data: { ...binding.data, binding_id, step_id: data.step_id, params: withIds(binding.data.params, ids) },
      })
    }
  }
  await graph.commit(changes, options)
  return graph.get('plan', plan_id)!
}

/** References to other steps' outputs name their ids: the copy must name the copies. */
function withIds(params: JsonObject, ids: ReadonlyMap<string, string>): JsonObject {
  return JSON.parse(JSON.stringify(params), (key, value) =>
    key === '$from' && typeof value === 'string' ? (ids.get(value) ?? value) : value,
  )
}

function snapshotOf(graph: ProjectGraph, idOrName: string): Node<'snapshot'> {
  const byId = graph.get('snapshot', idOrName)
  if (byId) return byId
  let latest: Node<'snapshot'> | undefined
  for (const node of graph.state.nodesOf('-'))
    if (isKind(node, 'snapshot') && node.data.name === idOrName && (!latest || node.born > latest.born)) latest = node
  if (!latest) throw new NotFound('snapshot', idOrName)
  return latest
}

function refuseWhileRunning(graph: ProjectGraph): void {
  for (const node of graph.state.nodes()) {
    if (!isKind(node, 'plan') || node.data.status !== 'in_progress') continue
    throw new InvalidInput('restore', [
      {
        path: 'of',
        rule: 'nothing_runs',
        message: `plan ${node.id} is running: name the run to take back, or wait until nothing runs`,
      },
    ])
  }
}

const groupsOf = (entries: readonly { readonly body: EntryBody }[]): ReadonlySet<string> =>
  new Set(
    entries
      .flatMap(({ body }) => body.changes.map((change) => change.key.split('/')[1]!))
      .filter((group) => group !== '-'),
  )
