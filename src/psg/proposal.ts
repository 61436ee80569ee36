import { append } from '../protocol/append.ts'
import type { Violation } from '../protocol/errors.ts'
import type { Digest } from '../protocol/json.ts'
import type { StepStatus } from '../protocol/types.ts'
import { planDigest } from './approval.ts'
import type { AnyNode, Changes, CommitOptions, Kind, Node, NodeOf } from './change.ts'
import { type Delta, isStructural } from './delta.ts'
import { type Folded, fold, type Open } from './fold.ts'
import { isKind, nodeOf, statusOf } from './node.ts'
import { noSteps } from './plan-facts.ts'
import { orderOf, type StepOrder } from './plan-order.ts'
import type { GraphState } from './state.ts'

/** What a proposal is made against. */
export interface Footing {
  readonly graph: string
  readonly project_id?: string
  readonly state: GraphState
  readonly revision: number
  readonly rules: { readonly switched: ReadonlySet<string> }
  /** Knows a role by id or name; absent unless unknown ones are errors. */
  readonly knowsRole?: (idOrName: string) => boolean
}

/** The graph as it would be after the changes: what the rules look at. Moves nothing, and finds out only what it is asked; every commit makes one. */
export class Proposal {
  readonly footing: Footing
  readonly state: GraphState
  readonly options: CommitOptions
  /** The first stamp this commit may give out, in microseconds. */
  readonly micros: number
  /** Those that do not have the shape of their kind; the checks put them there, and the questions below leave them out. */
  readonly shapeless = new Set<Delta>()
  readonly #folded: Folded
  readonly #digests = new Map<string, Digest>()
  #byKind: ReadonlyMap<Kind, readonly Delta[]> | undefined
  #byOwner: ReadonlyMap<string | undefined, readonly Delta[]> | undefined
  #order: StepOrder | undefined

  constructor(footing: Footing, changes: Changes, options: CommitOptions, micros: number) {
    this.footing = footing
    this.state = footing.state
    this.options = options
    this.micros = micros
    this.#folded = fold(footing.state, footing.revision + 1, changes)
    for (const gate of this.#folded.byKind.get('gate')?.values() ?? []) this.#bind(gate)
  }

  get graph(): string {
    return this.footing.graph
  }

  get revision(): number {
    return this.footing.revision + 1
  }

  /** Ids of rules, arrows and events that are switched over for a proof. */
  get switched(): ReadonlySet<string> {
    return this.footing.rules.switched
  }

  get deltas(): readonly Delta[] {
    return this.#folded.deltas
  }

  /** What could not even be folded: a node added twice, a change of something that is not there. */
  get misfits(): readonly Violation[] {
    return this.#folded.misfits
  }

  delta(kind: Kind, id: string): Delta | undefined {
    return this.#folded.byKind.get(kind)?.get(id)
  }

  after<K extends Kind>(kind: K, id: string): NodeOf<K> | undefined {
    const delta = this.delta(kind, id)
    return delta ? (delta.after as NodeOf<K> | undefined) : this.state.get(kind, id)
  }

  deltasOf(kind: Kind): readonly Delta[] {
    if (!this.#folded.byKind.has(kind)) return NO_DELTAS
    this.#byKind ??= groupBy(this.deltas, (delta) => delta.kind)
    return this.#shaped(this.#byKind.get(kind))
  }

  /** Parts of an object that this commit touches. */
  partsTouched(owner: string): readonly Delta[] {
    this.#byOwner ??= groupBy(this.deltas, ({ before, after }) => (after ?? before)!.owner)
    return this.#shaped(this.#byOwner.get(owner))
  }

  /** What comes back from its tombstone, as it was when it was deleted. */
  revived(kind: Kind, id: string): AnyNode | undefined {
    return this.delta(kind, id)?.before ? undefined : this.state.tombstone(kind, id)
  }

  /** How many steps of a plan would be in each status. */
  tallyAfter(plan: string): Readonly<Record<StepStatus, number>> {
    const tally = { ...(this.state.plan(plan)?.tally ?? noSteps()) }
    for (const { kind, before, after } of this.partsTouched(plan)) {
      if (kind !== 'step') continue
      if (before) tally[statusOf(before) as StepStatus]--
      if (after) tally[statusOf(after) as StepStatus]++
    }
    return tally
  }

  /** The run of a plan that would not have ended. */
  runAfter(plan: string): string | undefined {
    let active = this.state.plan(plan)?.activeRun
    for (const { id, after } of this.deltasOf('run')) {
      if (!isKind(after, 'run') || after.data.plan_id !== plan) continue
      if (after.data.phase !== 'ended') active = id
      else if (active === id) active = undefined
    }
    return active
  }

  /** What an approval of the plan as it would be is bound to. */
  digestAfter(plan: Node<'plan'>): Digest {
    const digest = this.#digests.get(plan.id) ?? planDigest(plan, this.#groupAfter(plan.group))
    this.#digests.set(plan.id, digest)
    return digest
  }

  /** Where each new or re-ordered step stands, and the cycles if there are any. */
  get order(): StepOrder {
    this.#order ??= this.deltas.some(isStructural) ? orderOf(this) : NO_ORDER
    return this.#order
  }

  /** A plan's gate that comes without a digest allows the plan as this commit leaves it. */
  #bind(gate: Open): void {
    const { before, after } = gate
    if (before || !isKind(after, 'gate') || after.data.digest !== undefined || after.data.target?.kind !== 'plan')
      return
    const plan = this.after('plan', after.data.target.id)
    if (plan) gate.after = nodeOf(after, { ...after.data, digest: this.digestAfter(plan) })
  }

  *#groupAfter(group: string): Iterable<AnyNode> {
    for (const node of this.state.nodesOf(group)) {
      const left = this.after(node.kind, node.id)
      if (left) yield left
    }
    for (const { before, after } of this.deltas) if (!before && after?.group === group) yield after
  }

  #shaped(found: readonly Delta[] = []): readonly Delta[] {
    return this.shapeless.size === 0 ? found : found.filter((delta) => !this.shapeless.has(delta))
  }
}

const NO_DELTAS: readonly Delta[] = []
const NO_ORDER: StepOrder = { ranks: new Map(), cycles: new Map() }

function groupBy<K>(deltas: readonly Delta[], keyOf: (delta: Delta) => K): ReadonlyMap<K, readonly Delta[]> {
  const groups = new Map<K, Delta[]>()
  for (const delta of deltas) append(groups, keyOf(delta), delta)
  return groups
}
