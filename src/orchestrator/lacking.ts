import type { Action, Lack } from '../ael/adapter.ts'
import type { ActionLayer } from '../ael/layer.ts'
import { append } from '../protocol/append.ts'
import type { Clock } from '../protocol/clock.ts'
import type { Problem } from '../protocol/errors.ts'
import { comparedSparingly, perhaps } from '../protocol/fields.ts'
import { given } from '../protocol/given.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { isTerminal } from '../protocol/lifecycle.ts'
import type { Plan, Step } from '../protocol/types.ts'
import { pathUnder } from '../protocol/under.ts'
import type { ActionRecord, Binding, Node, NodeAdd } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { ofKind } from '../psg/node.ts'
import { sessionHasEnded } from './ending.ts'
import { expiryOf } from './gate.ts'
import type { Ending, RunOptions } from './live.ts'
import { isCarriedOver, isStepCarriedOver, worksOf } from './outcome.ts'
import { blanksIn, isReference } from './references.ts'
import { latestEnd } from './timers.ts'
import { isBehind } from './undo.ts'

/** Why a process does not go on with a run: what it would need for one of the steps, and does not have. */
export interface Lacking extends Omit<Lack, 'known'> {
  readonly step_id: string
}

/** An action that a run is still to carry out. */
export type Need = Pick<Action, 'action_type' | 'params'> & { readonly step_id: string }

/** The first thing that this layer would need to bring a run to its end and does not have; nothing of one that has only to be ended. */
export function lackingFor(
  graph: ProjectGraph,
  run: Node<'run'>,
  layer: Pick<ActionLayer, 'lacks'>,
): { readonly need: Need; readonly lacking: Lacking } | undefined {
  for (const need of needsOf(graph, run)) {
    const lack = need.action_type === 'wait' ? undefined : layer.lacks(need)
    if (lack) return { need, lacking: { step_id: need.step_id, what: lack.what, name: lack.name } }
  }
  return undefined
}

/** What a process knows of the actions that it is to carry out. */
export type Knowing = Pick<ActionLayer, 'lacks' | 'unread' | 'unfit'>

/**
 * What a flow asks for that its process does not have, and params that its adapter does not read or will refuse: later they would be found only when
 * their step's turn comes, after others that took effect. Of what an earlier run has done only the way back is looked at, and only where the run may go back.
 */
export function lackProblems(
  { steps }: Plan,
  /** In the order of the steps. */
  bound: readonly Binding[],
  done: readonly NodeAdd<'action'>[],
  { on_failure, session }: RunOptions,
  { lacks, unread, unfit }: Knowing,
  clock: Pick<Clock, 'now'>,
): readonly Problem[] {
  const problems: Problem[] = []
  const until = clock.now() + CHECKED_MS
  /** Values are looked at where all of them are there, and it is known who asks; in a session that is whoever's turn it is. */
  const wrongParams = (action: Pick<Action, 'action_type' | 'params'>, by: Step | undefined): readonly Problem[] => {
    if (isReference(action.params)) return []
    const isWhole = by && !session && !blanksIn(action.params).any && clock.now() < until
    return isWhole ? unfit(action, given({ role: by.agent_role })) : unread(action)
  }
  const sparingly = comparedSparingly()
  const look = (action: Pick<Action, 'action_type' | 'params'> | undefined, at: string, step?: Step) => {
    if (!action || action.action_type === 'wait') return
    const path = step ? `bindings.steps.${step.step_id}${at}` : at
    const whose = step ? `of the step “${step.description}” ` : '' // its id says nothing to who has written the flow in short
    const lack = lacks(action)
    for (const problem of wrongParams(action, lack ? undefined : step))
      problems.push({
        ...problem,
        path: pathUnder(`${path}.params`, problem.path),
        message: `${whose}${problem.message}`,
      })
    if (!lack) return
    const { what, name, known = [] } = lack
    const hint = COMES_WITH[`${what} ${name}`] ?? perhaps(name, sparingly(known))
    const message = `${whose}asks for the ${what} ${name}, which this process does not have${hint}`
    problems.push({ path, rule: 'lacking', message })
  }
  const goesBack = on_failure === 'compensate' || bound.some((binding) => binding.on_failure === 'compensate')
  const works = new Map<string, ActionRecord[]>()
  for (const { data } of done) append(works, data.step_id, data)
  for (const [i, step] of steps.entries()) {
    const worksOfIt = works.get(step.step_id) ?? []
    const isToDo = !worksOfIt.some(isCarriedOver)
    if (isToDo) look(bound[i]!, '', step)
    const inverses: (Json | undefined)[] = goesBack ? worksOfIt.map(({ inverse }) => inverse) : []
    if (isToDo) inverses.push(bound[i]!.inverse)
    for (const inverse of inverses)
      if (isObject(inverse)) look(inverseNeeded(step.step_id, inverse as JsonObject), '.inverse', step)
  }
  look(session?.brief, 'session.brief')
  look(session?.review, 'session.review')
  return problems
}

/** Nothing else goes on meanwhile, so what would take longer is left until the action is due. */
const CHECKED_MS = 2_000

/** Adapters that are there once a config has something for them. */
const COMES_WITH: { readonly [lack: string]: string } = {
  'adapter for actions of type function': '; it comes with functions in the config',
  'adapter for actions of type llm_call': '; it comes with models in the config',
  'adapter for actions of type mcp_call': '; it comes with mcp in the config',
}

/** What is still to be carried out: the actions of the steps that have not ended, and what takes steps back, if it is to or may come to that. */
function* needsOf(graph: ProjectGraph, run: Node<'run'>): Iterable<Need> {
  const { plan_id } = run.data
  const { session } = run.data.options as RunOptions
  const ending = endingOf(graph, run)
  const goesBack = mayGoBack(graph, run, ending)
  if (goesBack) yield* wayBack(graph, plan_id)
  if (ending) return
  const words = [session?.brief, session?.review].filter((word) => word !== undefined)
  for (const { data } of ofKind(graph.state.nodesOf(plan_id), 'binding')) {
    const { step_id, inverse } = data
    for (const word of words.splice(0)) yield { ...word, step_id } // the same about every step, also when that is done
    if (!isOpen(graph, step_id) || isStepCarriedOver(graph.state, step_id)) continue
    yield data
    if (goesBack && isObject(inverse)) yield inverseNeeded(step_id, inverse as JsonObject)
  }
}

function mayGoBack(graph: ProjectGraph, { data }: Node<'run'>, ending: Ended | undefined): boolean {
  const compensates = (data.options as RunOptions).on_failure === 'compensate'
  if (ending) return ending.undo ?? (ending.status === 'failed' && compensates)
  if (compensates) return true
  for (const binding of ofKind(graph.state.nodesOf(data.plan_id), 'binding'))
    if (binding.data.on_failure === 'compensate') return true
  return false
}

type Ended = Pick<Ending, 'status' | 'undo'>

/** Is an action of a step still to be carried out, so that the run can go on? */
export const isStillNeeded = (graph: ProjectGraph, run: Node<'run'>, { step_id }: Need): boolean =>
  isOpen(graph, step_id) && !endingOf(graph, run)

/** Why the run has only to be ended, if it has: whoever finds it so can do that. */
export function endingOf(graph: ProjectGraph, { data }: Node<'run'>): Ended | undefined {
  const { ending, requested, plan_id, options } = data
  if (ending) return ending as unknown as Ending
  const status = graph.get('plan', plan_id)?.data.status
  const { session } = options as RunOptions
  const isCancelled =
    requested === 'cancel' ||
    status === undefined ||
    isTerminal('plan', status) ||
    (status === 'approved' && expiryOf(graph, plan_id) !== undefined) ||
    (session && sessionHasEnded(graph, session))
  if (isCancelled) return { status: 'cancelled' }
  const latest = latestEnd(data)
  return latest && latest.due <= graph.clock.now() ? latest.ending : undefined
}

function isOpen(graph: ProjectGraph, step: string): boolean {
  const status = graph.get('step', step)?.data.status
  return status === 'pending' || status === 'in_progress'
}

function* wayBack({ state }: ProjectGraph, plan: string): Iterable<Need> {
  for (const { inverse, step_id, action_id } of worksOf(state, plan))
    if (isObject(inverse) && !isBehind(state, step_id, action_id)) yield inverseNeeded(step_id, inverse as JsonObject)
}

const inverseNeeded = (step_id: string, { action_type, params = {} }: JsonObject): Need => ({
  step_id,
  action_type: String(action_type),
  params: params as JsonObject,
})
