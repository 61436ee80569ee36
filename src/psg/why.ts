import { NotFound } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Kind, Node } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { checkName } from './input.ts'
import { nodeKey, ofKind, referencesOf, statusOf } from './node.ts'
import type { GraphState } from './state.ts'
import { children } from './view.ts'

/** One link of the chain that led to a node. */
export interface Reason {
  readonly kind: Kind
  readonly id: string
  /** Of a run how it has ended, or its phase; `deleted` of what is no longer there. */
  readonly status?: string
  /** Of a Confirm: the roles that decided so, `policy` where nobody was asked. */
  readonly by?: readonly string[]
  /** What people know it by; its kind where it has nothing of the sort. */
  readonly says: string
}

type Name = readonly [Kind, string]

/** The chain from the context down to a node, as far as it is loaded: the plan, its approval, the step, the action, the node itself. */
export const why = (state: GraphState, kind: Kind, id: string): readonly Reason[] => climb(state, [kind, id]).chain

/** The same, loading what it leads to. Throws NotFound. */
export async function reasonsFor(graph: ProjectGraph, kind: Kind, id: string): Promise<readonly Reason[]> {
  checkName(kind, id)
  const names = new Map<string, Name>([[nodeKey(kind, id), [kind, id]]])
  for (;;) {
    const { chain, absent } = await graph.reading([...names.values()], (state) => climb(state, [kind, id]))
    const fresh = absent.filter((name) => !names.has(nodeKey(...name)))
    if (chain.length === 0) throw new NotFound(kind, id)
    if (fresh.length === 0) return chain
    for (const name of fresh) names.set(nodeKey(...name), name)
  }
}

function climb(state: GraphState, start: Name): { chain: readonly Reason[]; absent: readonly Name[] } {
  const chain: Reason[] = []
  const absent: Name[] = []
  const seen = new Set<string>()
  const visit = (name: Name): void => {
    if (seen.has(nodeKey(...name))) return
    seen.add(nodeKey(...name))
    const present = state.get(...name)
    const node = present ?? state.tombstone(...name)
    if (!node) return void absent.push(name)
    for (const cause of causesOf(state, node)) visit(cause)
    const status = present ? standingOf(present) : 'deleted'
    const by = node.kind === 'confirm' ? decidersOf(state, node) : []
    const standing = { ...(status !== undefined && { status }), ...(by.length > 0 && { by }) }
    chain.push({ kind: node.kind, id: node.id, ...standing, says: saying(node) })
  }
  visit(start)
  return { chain, absent }
}

const standingOf = (node: AnyNode): string | undefined =>
  node.kind === 'run' ? String(node.data.result?.status ?? node.data.phase) : statusOf(node)

/** What directly led to a node, farthest first. */
function causesOf(state: GraphState, node: AnyNode): readonly Name[] {
  switch (node.kind) {
    case 'step':
      return [['plan', node.owner!], ...approvalsOf(state, 'plan', node.owner!)]
    case 'action':
      return [...carriedFrom(node), ['step', node.data.step_id], ...approvalsOf(state, 'action', node.id)]
    case 'file':
      return node.data.written_by === undefined ? [] : [['action', node.data.written_by]]
    case 'timer':
      return [['action', node.data.target]]
    case 'segment': {
      const { step_id, action_id } = node.data.attributes ?? {}
      const work: Name[] = []
      if (typeof step_id === 'string') work.push(['step', step_id])
      if (typeof action_id === 'string') work.push(['action', action_id])
      return [...work, ['trace', node.owner!]]
    }
    default:
      return referencesOf(node).map((reference) => [reference.kind, reference.id] as const)
  }
}

/** What was done by an earlier run came about there. */
const carriedFrom = ({ data: { carried_from } }: Node<'action'>): readonly Name[] =>
  carried_from ? [['action', carried_from.action_id]] : []

function approvalsOf(state: GraphState, kind: 'plan' | 'action', id: string): readonly Name[] {
  const confirms = [...state.referrers(kind, id, 'CONFIRMS')].filter((node) => statusOf(node) === 'approved')
  return confirms.sort((a, b) => a.born - b.born).map((node) => [node.kind, node.id] as const)
}

/** What was decided before it was last put up was about something else. */
function decidersOf(state: GraphState, { id, data: { status } }: Node<'confirm'>): readonly string[] {
  const gates = [...state.referrers('confirm', id, 'GATES')].map(({ born }) => born)
  const asked = Math.max(0, ...gates)
  const decisions = [...ofKind(children(state, 'confirm', id), 'decision')]
  const counting = decisions.filter(({ born, data }) => born >= asked && data.status === status)
  return [...new Set(counting.map(({ data }) => data.decided_by_role))]
}

function saying(node: AnyNode): string {
  const { title, description, name, label, reason, purpose, path, action_type } = node.data as JsonObject
  return String(title ?? description ?? name ?? label ?? reason ?? purpose ?? path ?? action_type ?? node.kind)
}
