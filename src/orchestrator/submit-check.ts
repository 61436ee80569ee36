import { executorKind, RETRY } from '../ael/action.ts'
import { askPeopleProblems } from '../protocol/check-approvers.ts'
import { LONGEST_WAIT_MS } from '../protocol/clock.ts'
import { InvalidInput, type Problem } from '../protocol/errors.ts'
import {
  amount,
  anything,
  type Fields,
  needed,
  object,
  oneOf,
  problemsIn,
  refuseUnlessFit,
  text,
  time,
  timeout,
  uuid,
  wholeFrom,
  within,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { tooDeepIn } from '../protocol/levels.ts'
import { blaming } from '../protocol/problem.ts'
import { validate } from '../protocol/validate.ts'
import { plain, tooDeep } from '../psg/plain.ts'
import type { BindingSpec } from './bind.ts'
import type { Flow } from './submit.ts'

/** What takes a step back. */
const INVERSE: Fields = { action_type: needed(text), executor_kind: executorKind, params: object }

/** How a step is executed. */
export const BINDING: Fields = {
  action_type: needed(text),
  executor_kind: executorKind,
  params: needed(object),
  timeout_ms: timeout,
  retry: RETRY,
  on_failure: oneOf('fail', 'skip', 'continue', 'compensate'),
  on_interrupt: oneOf('retry', 'hold'),
  approval: {
    says: '"none", "ask" or an object',
    fits: (value) => value === 'none' || value === 'ask' || isObject(value),
  },
  inverse: {
    says: 'irreversible, or an action_type with params and executor_kind',
    fits: (value) => value === 'irreversible' || problemsIn(value, INVERSE, '').length === 0,
  },
}

/** What holds for a whole run. */
export const RUN_OPTIONS: Fields = {
  concurrency: wholeFrom(1),
  budget: {
    actions: amount,
    tokens: amount,
    cost: amount,
    wall_ms: wholeFrom(1, LONGEST_WAIT_MS),
    warn_at: within(0, 1),
  },
  deadline: time,
  retry: RETRY,
  timeout_ms: timeout,
  profile: oneOf('sa', 'map', 'none'),
  /** The rest of it is checked when the session is opened, together with its Collab. */
  session: { collab_id: needed(text), '*': anything },
  on_failure: oneOf('keep', 'compensate'),
}

/** How a plan is run, whoever made it. */
const RUNNING = {
  bindings: { steps: { '*': BINDING }, roles: { '*': BINDING } },
  approval: { says: '"auto" or an object', fits: (value) => value === 'auto' || isObject(value) },
  options: RUN_OPTIONS,
} satisfies Fields

/** Most who choose an id have a name of their own for it. */
const chosenId = { ...uuid, says: `${uuid.says}, as uuidOf of mplp-runtime/protocol makes one of a text` }

export const FLOW = {
  context: { says: 'a Context or the id of one', fits: (value) => typeof value === 'string' || isObject(value) },
  plan: object,
  ...RUNNING,
  chosen: { run: chosenId, trace: chosenId, confirm: chosenId },
} satisfies Fields

/** A flow in short has a title of its own, even where its steps are missing or misspelt. */
export const isInShort = (given: unknown): boolean =>
  isObject(given) && given.plan === undefined && (given.steps !== undefined || given.title !== undefined)

/** A flow with everything in it as it must be. Throws InvalidInput for what is none. */
export function checkedFlow(given: unknown): Flow {
  if (isInShort(given)) refuseIf([{ path: '', rule: 'whole', message: 'is in short: submit flowOf(…).flow' }])
  if (isObject(given) && isObject(given.flow))
    refuseIf([{ path: 'flow', rule: 'whole', message: 'is what to submit, without what it lies in' }])
  const flow = isObject(given) ? { ...given, ...asJson(given, OURS) } : given
  refuseUnlessFit('flow', flow, FLOW)
  if ((flow as Partial<Flow>).plan === undefined)
    refuseIf([{ path: 'plan', rule: 'required', message: 'is missing; a flow in short has a title and steps instead' }])
  const { context, plan, approval, options } = flow as unknown as Flow
  validate('plan', plan)
  if (typeof context !== 'string') validate('context', context)
  refuseDeep(context, 'context')
  refuseDeep(plan, 'plan')
  const problems: Problem[] = []
  const wrong = blaming(problems)
  if (plan.status !== 'draft') wrong('plan.status', 'birth', 'must be draft: a plan is submitted before it is approved')
  plan.steps.forEach(({ status }, i) => {
    if (status !== 'pending') wrong(`plan.steps[${i}].status`, 'birth', 'must be pending')
  })
  if (isObject(approval)) problems.push(...askPeopleProblems(approval, 'approval'))
  if ((options?.profile === 'map') !== (options?.session !== undefined))
    wrong('options.session', 'profile', 'belongs to the profile map, and that to a session')
  refuseIf(problems)
  return flow as unknown as Flow
}

/** The run that a flow is known again by. Throws InvalidInput where it leaves the id to us, and says how one is made. */
export function chosenRun({ chosen: { run } = {} }: Flow, made = "'order 7'"): string {
  if (run !== undefined) return run
  const message = `is needed to know it again by: chosen: { run: uuidOf(${made}) }`
  throw new InvalidInput('flow', [{ path: 'chosen.run', rule: 'required', message }])
}

/** For a layer that does not ask the run what may be spent: a limit that nobody holds would be one in name only. */
export function refuseBudget({ options: { budget = {} } = {} }: Flow): void {
  const limits = (['actions', 'tokens', 'cost'] as const).filter((unit) => budget[unit] !== undefined)
  const message = 'is held by nobody: give the layer as a function, (hands) => actionLayer({ ...hands, … })'
  refuseIf(limits.map((unit) => ({ path: `options.budget.${unit}`, rule: 'layer', message })))
}

/** What the protocol has no schema for, and may hold anything. */
const OURS = ['bindings', 'approval', 'options', 'chosen'] as const

const asJson = (flow: Readonly<Record<string, unknown>>, fields: readonly string[]): object =>
  Object.fromEntries(
    fields.filter((field) => flow[field] !== undefined).map((field) => [field, plain(flow[field], field, 'flow')]),
  )

/** Schemas pass over members that they do not know, and the graph would name a place in a commit that the caller never saw. */
function refuseDeep(document: unknown, path: string): void {
  const way = tooDeepIn(document)
  if (way) throw tooDeep(document, way, path, 'flow')
}

/** What is wrong with the way in which a plan is to be run that nobody has made yet. */
export function runningProblems(flow: Readonly<Record<string, unknown>>, at: string): readonly Problem[] {
  const { bindings, approval, options } = flow
  const asked = isObject(approval) ? askPeopleProblems(approval, `${at}.approval`) : []
  return [...problemsIn({ bindings, approval, options }, RUNNING, at), ...asked]
}

/** What is wrong with a binding beyond its members' own shapes. */
export const bindingProblems = (binding: BindingSpec, at: string): readonly Problem[] => [
  ...(isObject(binding.approval) ? askPeopleProblems(binding.approval, `${at}.approval`) : []),
  ...waitProblems(binding, at),
]

/** What is wrong with what waits; of anything else, nothing. */
function waitProblems(binding: BindingSpec, at: string): readonly Problem[] {
  const { action_type, params, inverse } = binding
  if (action_type !== 'wait') return []
  const problems = [...problemsIn(params, WAIT, `${at}.params`)]
  const wrong = blaming(problems)
  if (problems.length === 0 && 'signal' in params === 'ms' in params)
    wrong(`${at}.params`, 'wait', 'must name a signal, or say in ms how long')
  if (inverse !== undefined) wrong(`${at}.inverse`, 'wait', NOTHING_DONE)
  if (binding.timeout_ms !== undefined && 'ms' in params)
    wrong(`${at}.timeout_ms`, 'wait', 'is for what waits for a signal: ms says how long')
  for (const name of ['retry', 'on_interrupt'] as const)
    if (binding[name] !== undefined) wrong(`${at}.${name}`, 'wait', NOTHING_TRIED)
  return problems
}
const NOTHING_DONE =
  'would never be carried out, since a wait does nothing that could be taken back: give it to a step that does'
const NOTHING_TRIED = 'does nothing for a wait, which nobody carries out'
const WAIT: Fields = { signal: text, ms: within(0, LONGEST_WAIT_MS) }

function refuseIf(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new InvalidInput('flow', problems)
}
