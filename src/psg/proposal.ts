import type { Violation } from '../protocol/errors.ts'
import type { Digest } from '../protocol/json.ts'
import type { StepStatus } from '../protocol/types.ts'
import { planDigest } from './approval.ts'
import type { AnyNode, Changes, CommitOptions, Kind, Node, NodeOf } from './change.ts'
import type { Delta } from './delta.ts'
import { fold } from './fold.ts'
import { isKind, nodeKey, statusOf } from './node.ts'
import { noSteps } from './plan-facts.ts'
import { orderOf, type StepOrder } from './plan-order.ts'
import type { GraphState } from './state.ts'

/** The graph as it would be after the changes: what the rules look at. Nothing here moves anything. */
export interface Proposal {
  readonly graph: string
  readonly project: string | undefined
  readonly revision: number
  readonly options: CommitOptions
  readonly state: GraphState
  readonly deltas: readonly Delta[]
  /** Those that do not have the shape of their kind; the checks put them there, and the questions below leave them out. */
  readonly shapeless: Set<Delta>
  /** What could not even be folded: a node added twice, a change of something that is not there. */
  readonly misfits: readonly Violation[]
  after<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined
  delta(kind: Kind, id: string): Delta | undefined
  deltasOf(kind: Kind): readonly Delta[]
  /** Parts of an object that this commit touches. */
  partsTouched(owner: string): readonly Delta[]
  /** How many steps of a plan would be in each status. */
  tallyAfter(plan: string): Readonly<Record<StepStatus, number>>
  /** The run of a plan that would not have ended. */
  runAfter(plan: string): string | undefined
  /** What an approval of the plan as it would be is bound to. */
  digestAfter(plan: Node<'plan'>): Digest
  /** Where each new or re-ordered step stands, and the cycles if there are any. */
  readonly order: StepOrder
  /** What comes back from its tombstone, as it was when it was deleted. */
  revived(kind: Kind, id: string): AnyNode | undefined
  /** The first stamp this commit may give out, in microseconds. */
  readonly micros: number
  /** Ids of rules, arrows and events that are switched over for a proof. */
  readonly switched: ReadonlySet<string>
  /** Knows a role by id or name; absent unless unknown ones are errors. */
  readonly knowsRole: ((idOrName: string) => boolean) | undefined
}

/** What the proposal is made against. */
export interface Footing {
  readonly graph: string
  readonly project_id?: string
  readonly state: GraphState
  readonly revision: number
  readonly rules: { readonly switched: ReadonlySet<string> }
  readonly knowsRole?: (idOrName: string) => boolean
}

export function propose(footing: Footing, changes: Changes, options: CommitOptions, micros: number): Proposal {
  const { state } = footing
  const folded = fold(state, footing.revision + 1, changes)
  const deltas = [...folded.deltas.values()]
  const byKind = new Map<Kind, Delta[]>()
  const byOwner = new Map<string, Delta[]>()
  for (const delta of deltas) {
    const { owner } = (delta.after ?? delta.before)!
    push(byKind, delta.kind, delta)
    if (owner !== undefined) push(byOwner, owner, delta)
  }
  const shapeless = new Set<Delta>()
  const shaped = (found: readonly Delta[] = []) =>
    shapeless.size === 0 ? found : found.filter((one) => !shapeless.has(one))
  const delta = (kind: Kind, id: string) => folded.deltas.get(nodeKey(kind, id))
  const after = (kind: Kind, id: string): AnyNode | undefined => {
    const changed = delta(kind, id)
    return changed ? changed.after : state.get(kind, id)
  }
  /** What a group would hold. */
  function* groupAfter(group: string): Iterable<AnyNode> {
    for (const node of state.nodesOf(group)) {
      const left = after(node.kind, node.id)
      if (left) yield left
    }
    for (const added of deltas) if (!added.before && added.after?.group === group) yield added.after
  }
  const digests = new Map<string, Digest>()
  let order: StepOrder | undefined
  return {
    graph: footing.graph,
    project: footing.project_id,
    revision: footing.revision + 1,
    options,
    state,
    deltas,
    shapeless,
    misfits: folded.misfits,
    micros,
    switched: footing.rules.switched,
    knowsRole: footing.knowsRole,
    after: after as Proposal['after'],
    delta,
    deltasOf: (kind) => shaped(byKind.get(kind)),
    partsTouched: (owner) => shaped(byOwner.get(owner)),
    revived: (kind, id) => (delta(kind, id)?.before ? undefined : state.tombstone(kind, id)),
    digestAfter(plan) {
      const digest = digests.get(plan.id) ?? planDigest(plan, groupAfter(plan.group))
      digests.set(plan.id, digest)
      return digest
    },
    tallyAfter(plan) {
      const tally = { ...(state.plan(plan)?.tally ?? noSteps()) }
      for (const { kind, before, after: is } of shaped(byOwner.get(plan))) {
        if (kind !== 'step') continue
        if (before) tally[statusOf(before) as StepStatus]--
        if (is) tally[statusOf(is) as StepStatus]++
      }
      return tally
    },
    runAfter(plan) {
      let active = state.plan(plan)?.activeRun
      for (const { id, after: run } of shaped(byKind.get('run'))) {
        if (!isKind(run, 'run') || run.data.plan_id !== plan) continue
        if (run.data.phase !== 'ended') active = id
        else if (active === id) active = undefined
      }
      return active
    },
    get order() {
      order ??= orderOf(shaped(byKind.get('step')), after, state)
      return order
    },
  }
}

function push<K>(lists: Map<K, Delta[]>, key: K, delta: Delta): void {
  const list = lists.get(key)
  if (list) list.push(delta)
  else lists.set(key, [delta])
}
