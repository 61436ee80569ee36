import { append } from '../protocol/append.ts'
import { RuleViolation } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { AnyNode, Change, CommitOptions, EdgeChange } from './change.ts'
import type { ProjectGraph } from './graph.ts'
import { nodeKey, referencesOf } from './node.ts'
import { isStepGoing, type Restoration, withBindings } from './restore.ts'
import type { GraphState } from './state.ts'

type NodeChange = Exclude<Change, EdgeChange>

/** The part of a way back that the rules allow; the rest is told as conflicts. */
export async function possible(graph: ProjectGraph, way: Restoration, options: CommitOptions): Promise<Restoration> {
  if (way.changes.length === 0) return way
  try {
    await graph.check(way.changes, options)
    return way
  } catch (error) {
    if (!(error instanceof RuleViolation)) throw error
    const changes = way.changes.filter(isOfNode) // a way back has no others
    const blamed = new Map(error.violations.map(({ node, message, rule }) => [node, `${message} [${rule}]`]))
    const reasons = withWhatFollows(blamed, changes, graph.state)
    const left: Change[] = []
    const conflicts = [...way.conflicts]
    const kept = new Map<string, number>()
    for (const change of changes) {
      const { node: kind, id } = change
      const message = reasons.get(nodeKey(kind, id))
      if (message === undefined) {
        left.push(change)
        continue
      }
      conflicts.push({ kind, id, revision: graph.revision, message })
      if (isStepGoing(change)) kept.set(id, graph.revision)
    }
    if (left.length === way.changes.length) throw error // none of it is to blame
    return possible(graph, withBindings({ changes: left, conflicts }, kept, graph.state), options)
  }
}

const isOfNode = (change: Change): change is NodeChange => change.kind !== 'edge_add' && change.kind !== 'edge_delete'

/**
 * What cannot go back, and why; also what then cannot either: of a chain of a thousand steps the rules blame one at a time, and each time all of them
 * would be checked anew.
 */
function withWhatFollows(
  blamed: ReadonlyMap<string, string>,
  changes: readonly NodeChange[],
  state: GraphState,
): ReadonlyMap<string, string> {
  const kinds = new Map(changes.map((change) => [nodeKey(change.node, change.id), change.kind]))
  const follows = new Map<string, { readonly name: string; readonly message: string }[]>()
  for (const change of changes) {
    const name = nodeKey(change.node, change.id)
    const what = `${change.node} ${change.id}`
    for (const { kind, id } of needsOf(state.get(change.node, change.id)))
      if (kinds.get(nodeKey(kind, id)) === 'node_delete')
        append(follows, name, { name: nodeKey(kind, id), message: `${kind} ${id} is needed by ${what}, which stays` })
    for (const { kind, id } of needsOf(comeBack(change, state)))
      if (kinds.get(nodeKey(kind, id)) === 'node_add')
        append(follows, nodeKey(kind, id), { name, message: `${what} needs ${kind} ${id}, which does not come back` })
  }
  const reasons = new Map(blamed)
  for (const name of reasons.keys())
    for (const { name: next, message } of follows.get(name) ?? []) if (!reasons.has(next)) reasons.set(next, message) // which is looked at in its turn
  return reasons
}

const needsOf = (node: AnyNode | undefined) => (node ? referencesOf(node) : [])

/** What a change makes of its node. */
function comeBack(change: NodeChange, state: GraphState): AnyNode | undefined {
  const { kind, node, id } = change
  if (kind === 'node_delete') return undefined
  const was = kind === 'node_add' ? state.tombstone(node, id) : state.get(node, id)
  const data = kind === 'node_add' ? change.data : { ...(was?.data as JsonObject), ...change.set }
  return was && ({ ...was, data } as AnyNode)
}
