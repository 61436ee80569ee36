import {
  anything,
  type Field,
  guarded,
  having,
  needed,
  objects,
  oneOf,
  refuseUnlessFit,
  text,
  wholeFrom,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { statusesOf } from '../protocol/lifecycle.ts'
import * as approval from './approval.ts'
import { aGraph } from './check-options.ts'
import { isKindName } from './input.ts'
import * as moves from './moves.ts'
import * as picture from './picture.ts'
import * as queries from './query.ts'
import * as told from './told.ts'
import * as view from './view.ts'
import * as reasons from './why.ts'

// For callers whom nobody has checked. Inside, where types are trusted and every commit asks, these functions are called as they are.

const state = needed(having('the state of a graph', 'get', 'has', 'nodes', 'nodesOf', 'targets', 'dependantsOf'))
const graph = needed(aGraph)
const kind = needed({ says: 'a kind of node', rule: 'enum', fits: isKindName })
const id = needed(text)
const isNode = (value: unknown): value is { kind: string } => isObject(value) && isObject(value.data)
const areNodes = (value: unknown): boolean =>
  Array.isArray(value) ? value.every(isNode) : isObject(value) && Symbol.iterator in value
const set: Field = { says: 'a set', fits: (value) => value instanceof Set }
/** For the function to look at. */
const looked = anything

/** The parts of an object, in their order. */
export const children = guarded('question', { state, kind, id }, view.children)
/** Pending steps whose dependencies are all completed or skipped, in the order in which they would start. */
export const readySteps = guarded('question', { state, plan: id }, view.readySteps)
/** What a step waits for, nearest first, down to `depth` edges. */
export const dependencies = guarded('question', { state, step: id, depth: looked }, view.dependencies)
/** What waits for a step, nearest first, up to `depth` edges. */
export const dependants = guarded('question', { state, step: id, depth: looked }, view.dependants)
/** Every loaded Confirm that waits for a decision, oldest first. */
export const pendingConfirms = guarded('question', { state }, view.pendingConfirms)
/** The shortest way between two nodes along edges of either direction; empty when there is none. */
export const path = guarded('question', { state, from: looked, to: looked }, view.path)
/** Loaded nodes of a kind with these fields, by id, page by page. */
export const query = guarded('query', { state, asked: looked }, queries.query)
/** The chain from the context down to a node, as far as it is loaded: the plan, its approval, the step, the action, the node itself. */
export const why = guarded('question', { state, kind, id }, reasons.why)
/** A picture as Mermaid text. Throws NotFound for a plan that is not loaded. */
export const mermaid = guarded('picture', { state, what: looked }, picture.mermaid)
/** The same in the language of Graphviz. */
export const dot = guarded('picture', { state, what: looked }, picture.dot)

const PROPOSING: { readonly [O in keyof Required<moves.Proposing>]: Field } = {
  ...{ requested_by_role: looked, reason: looked, needed: looked, roles: looked, expires_at: looked, shows: looked },
}
const DECIDING: { readonly [O in keyof Required<moves.Deciding>]: Field } = {
  ...{ status: looked, decided_by_role: looked, reason: looked, decision_id: looked, digest: looked },
}

/** Puts a plan up for approval: the plan as it stands now is what the Confirm's decisions will allow. A Confirm of the plan that is still open is asked again. */
export const proposePlan = guarded('proposal', { graph, plan: looked, options: PROPOSING }, moves.proposePlan)
/** Adds a decision and lets what follows from it follow: the Confirm's verdict, and the plan that waits for it. */
export const decide = guarded('decision', { graph, confirm: looked, deciding: DECIDING }, moves.decide)
/** Starts an approved plan and uses its approval up. */
export const startPlan = guarded('plan', { graph, plan: id, usedBy: id }, moves.startPlan)
/**
 * Ends a plan and its open steps with it: what ran has failed, what waited is skipped, and a question about it that nobody answered is withdrawn.
 * `ended` names steps that other changes of the commit end.
 */
export const endPlan = guarded(
  'plan',
  { graph, plan: looked, status: needed(oneOf('completed', 'failed', 'cancelled')), ended: set },
  moves.endPlan,
)
/** Another status. */
export const move: typeof moves.move = (node, of, status) => {
  const known = statusesOf(node) // throws for what has none
  refuseUnlessFit('move', { id: of, status }, { id, status: needed(oneOf(...known)) })
  return moves.move(node, of, status)
}

/**
 * What the decisions on a gate amount to: its last word, unless that approves. Approval needs as many roles as the gate asks, counted since the
 * last decision that was none. Without a gate one approval is enough.
 */
export const verdict = guarded(
  'approval',
  { gate: { needed: needed(wholeFrom(1)), '*': anything }, decisions: needed(objects) },
  approval.verdict,
)
/** What a plan's approval is bound to: its head and steps without their statuses, and its bindings. */
export const planDigest: typeof approval.planDigest = (plan, parts) => {
  refuseUnlessFit(
    'approval',
    { plan, parts },
    {
      plan: needed({ says: 'the node of a plan', fits: (value) => isNode(value) && value.kind === 'plan' }),
      parts: needed({ says: 'nodes', fits: areNodes }),
    },
  )
  return approval.planDigest(plan, parts)
}

/**
 * The events of an entry, whole; none of one that is no graph's. An entry leaves out what the rest of it says: ids follow from its `commit_id`, times
 * from its `at`, moves of steps and what happened to the graph from its changes, whom the events of a run are about from that run.
 */
export const eventsIn: typeof told.eventsIn = (entry) => {
  refuseUnlessFit('entry', entry, { stream: id, revision: needed(wholeFrom(0)), body: anything, '*': anything })
  return told.eventsIn(entry)
}
