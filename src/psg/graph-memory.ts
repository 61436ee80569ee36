import type { StepStatus } from '../protocol/types.ts'
import type { AnyNode, Kind, Node } from './change.ts'
import { type Delta, isStructural } from './delta.ts'
import { withEdge, withoutEdge } from './edges.ts'
import type { RefFacts } from './kinds.ts'
import { CONTAINS, eachReference, isKind, nodeKey, statusOf } from './node.ts'
import { PlanRecord } from './plan-facts.ts'
import { type Edge, type GraphState, type Group, type Held, Kept, refersElsewhere, State } from './state.ts'

/** A graph's memory: what is read of it, and the only hands that change it. */
export interface GraphMemory {
  readonly state: GraphState
  /** `ranks` tell where new and re-ordered steps stand; without them the order of the plans concerned is made anew when needed. */
  apply(deltas: readonly Delta[], ranks?: ReadonlyMap<string, number>): void
  /** Remembers what lies in the store as deleted. */
  bury(node: AnyNode): void
  openGroup(group: string): void
  evict(group: string): void
}

export function graphMemory(): GraphMemory {
  const kept = new Kept()
  const { kinds, groups, plans, tombstones, missing } = kept
  const recordOf = (kind: Kind, id: string): Held | undefined => kinds.get(kind)?.get(id)

  function groupOf(name: string): Group {
    let group = groups.get(name)
    if (!group) {
      group = { records: new Set(), tombstones: new Set() }
      groups.set(name, group)
    }
    return group
  }

  /** Remembers, or forgets, that somebody refers to something that is not here. */
  function awaits(target: string, from: Held): void {
    const waiting = missing.get(target)
    if (waiting) waiting.add(from)
    else missing.set(target, new Set([from]))
  }
  function awaitsNoMore(record: Held): void {
    if (missing.size === 0) return
    eachReference(record.node, (_, kind, id) => {
      const target = nodeKey(kind, id)
      const waiting = missing.get(target)
      if (waiting?.delete(record) && waiting.size === 0) missing.delete(target)
    })
  }

  function link(from: Held, ref: RefFacts, kind: Kind, id: string): void {
    const to = recordOf(kind, id)
    if (!to) awaits(nodeKey(kind, id), from)
    else if (ref === CONTAINS) draw({ type: ref.edge, from: to, to: from })
    else draw({ type: ref.edge, from, to })
  }
  function draw(edge: Edge): void {
    edge.from.out = withEdge(edge.from.out, edge)
    edge.to.in = withEdge(edge.to.in, edge)
    kept.edges++
  }
  function erase(edge: Edge): void {
    edge.from.out = withoutEdge(edge.from.out, edge)
    edge.to.in = withoutEdge(edge.to.in, edge)
    kept.edges--
  }

  function add(node: AnyNode): Held {
    const record: Held = { node, in: undefined, out: undefined }
    const known = kinds.get(node.kind)
    if (known) known.set(node.id, record)
    else kinds.set(node.kind, new Map([[node.id, record]]))
    kept.size++
    const group = groupOf(node.group)
    group.records.add(record)
    if (tombstones.size > 0 && tombstones.delete(nodeKey(node.kind, node.id)))
      group.tombstones.delete(nodeKey(node.kind, node.id))
    return record
  }

  function linkAll(record: Held): void {
    const { node } = record
    eachReference(node, (ref, kind, id) => link(record, ref, kind, id))
    const waiting = missing.size === 0 ? undefined : missing.get(nodeKey(node.kind, node.id))
    if (!waiting) return
    missing.delete(nodeKey(node.kind, node.id))
    for (const from of waiting)
      eachReference(from.node, (ref, kind, id) => {
        if (kind === node.kind && id === node.id) link(from, ref, kind, id)
      })
  }

  function replace(before: AnyNode, after: AnyNode, statusOnly: boolean): void {
    const record = recordOf(after.kind, after.id)!
    const relinks = !statusOnly && refersElsewhere(before, after)
    if (relinks) unlink(record)
    record.node = after
    if (relinks)
      eachReference(after, (ref, kind, id) => {
        if (ref !== CONTAINS) link(record, ref, kind, id)
      })
  }

  function unlink(record: Held): void {
    awaitsNoMore(record)
    for (const edge of record.out ?? []) if (edge.type !== 'CONTAINS') erase(edge)
  }

  function drop(node: AnyNode): void {
    const record = recordOf(node.kind, node.id)!
    awaitsNoMore(record)
    for (const edge of record.in ?? []) {
      if (edge.type !== 'CONTAINS') awaits(nodeKey(node.kind, node.id), edge.from)
      erase(edge)
    }
    for (const edge of record.out ?? []) {
      if (edge.type === 'CONTAINS') awaits(nodeKey(node.kind, node.id), edge.to)
      erase(edge)
    }
    kept.size--
    kinds.get(node.kind)!.delete(node.id)
    groups.get(node.group)?.records.delete(record)
  }

  function bury(node: AnyNode): void {
    const key = nodeKey(node.kind, node.id)
    groupOf(node.group).tombstones.add(key)
    tombstones.set(key, node)
  }

  /** Facts of a plan come with its first part, whichever that is: the store's order is not the plan's. */
  function factsOf(plan: string): PlanRecord {
    let record = plans.get(plan)
    if (!record) {
      record = new PlanRecord(() => stepsIn(groups.get(plan)))
      plans.set(plan, record)
    }
    return record
  }

  function keepFacts({ kind, id, before, after }: Delta): void {
    if (kind === 'step') {
      const record = after ? factsOf(after.owner!) : plans.get(before!.owner!)
      if (!record) return // its plan went first
      if (before) record.tally[statusOf(before) as StepStatus]--
      if (after) record.tally[statusOf(after) as StepStatus]++
      else record.removed(id)
    } else if (kind === 'plan') {
      if (!after) plans.delete(id)
      else factsOf(id)
    } else if (isKind(after, 'run')) {
      const record = factsOf(after.data.plan_id)
      if (after.data.phase !== 'ended') record.activeRun = id
      else if (record.activeRun === id) record.activeRun = undefined
    } else if (kind === 'signal') {
      const { signals } = factsOf((after ?? before)!.group)
      if (isKind(after, 'signal') && !after.data.taken) signals.set(id, after)
      else signals.delete(id)
    } else if (isKind(after, 'child')) {
      const { children } = factsOf(after.group)
      const { action_id, run_id } = after.data
      children.set(action_id, (children.get(action_id) ?? new Map()).set(run_id, after))
    } else if (isKind(before, 'child'))
      plans.get(before.group)?.children.get(before.data.action_id)?.delete(before.data.run_id)
  }

  function keepOrders(deltas: readonly Delta[], ranks: ReadonlyMap<string, number> | undefined): void {
    const restructured = new Map<string, [string, number][]>()
    for (const delta of deltas) if (isStructural(delta)) restructured.set((delta.after ?? delta.before)!.owner!, [])
    for (const [step, rank] of ranks ?? []) restructured.get(recordOf('step', step)!.node.owner!)?.push([step, rank])
    for (const [plan, ranked] of restructured) {
      plans.get(plan)?.restructured(ranks && ranked)
      if (statusOf(recordOf('plan', plan)?.node) !== 'draft') plans.get(plan)?.settled()
    }
  }

  return {
    state: new State(kept),
    apply(deltas, ranks) {
      const added: Held[] = []
      for (const delta of deltas) {
        if (!delta.before) added.push(add(delta.after!))
        else if (delta.after) replace(delta.before, delta.after, delta.statusOnly)
        else {
          drop(delta.before)
          bury(delta.before)
        }
        keepFacts(delta)
      }
      for (const record of added) linkAll(record) // when all are there: most refer to each other
      if (deltas.some(isStructural)) keepOrders(deltas, ranks)
    },
    bury,
    openGroup: (group) => void groupOf(group),
    evict(name) {
      const group = groups.get(name)
      if (!group) return
      for (const { node } of group.records) drop(node)
      for (const key of group.tombstones) tombstones.delete(key)
      groups.delete(name)
      plans.delete(name)
    },
  }
}

function* stepsIn(group: Group | undefined): Iterable<Node<'step'>> {
  for (const { node } of group?.records ?? []) if (isKind(node, 'step')) yield node
}
