import { InvalidInput, type Problem } from '../protocol/errors.ts'
import {
  type Field,
  type Fields,
  LONGEST_TIMER_MS,
  list,
  problemsIn,
  text,
  texts,
  wholeFrom,
} from '../protocol/fields.ts'
import { breachProblems } from '../protocol/invariants.ts'
import { isObject, type JsonObject } from '../protocol/json.ts'
import { type Blame, blaming, problem } from '../protocol/problem.ts'
import type { Collab, Plan } from '../protocol/types.ts'
import { isValid } from '../protocol/validate.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { RoleFinder } from './bind.ts'
import { STRATEGIES } from './conflict.ts'
import type { RunOptions } from './live.ts'
import { fits, type Seat } from './modes/mode.ts'
import { mapBreaches } from './profiles/map.ts'
import { eachReference, referenceProblems, THIS_STEP } from './references.ts'
import type { Session, SessionAsked, SessionSeat } from './session.ts'
import { BINDING, bindingProblems } from './submit-check.ts'

const TOKEN_MS = 5 * 60_000
const RETAKES = 2

/**
 * Settles what a session needs before its first turn: each participant in its role, by id or by name, and for each step somebody who may do it.
 * Throws InvalidInput naming everything that is missing.
 */
export function openSession(
  asked: SessionAsked,
  collab: Collab,
  plan: Plan,
  role: RoleFinder,
  switched?: ReadonlySet<string>,
): Session {
  const problems: Problem[] = [...breachProblems(mapBreaches({ collab }, switched)), ...askedProblems(asked, plan)]
  const wrong = blaming(problems)
  checkCollab(collab, plan, wrong)
  const seats = collab.participants.flatMap((participant, i) => seatOf(participant, i, role, wrong))
  if (seats.length === collab.participants.length)
    for (const unseated of seatProblems(seats, plan.steps)) problems.push(unseated)
  const coordinator = asked.coordinator ?? collab.participants[0]!.participant_id
  if (!collab.participants.some(({ participant_id }) => participant_id === coordinator))
    wrong('session.coordinator', 'reference.resolves', 'is no participant', coordinator)
  if (problems.length === 0) checkRanks(asked, seats, role, wrong)
  if (problems.length > 0) throw new InvalidInput('session', problems)
  const { mode, purpose } = collab
  return { token_ms: TOKEN_MS, retakes: RETAKES, ...asked, mode, purpose, coordinator, seats }
}

/** Steps that nobody who takes part may do. */
export const seatProblems = (seats: readonly Seat[], steps: Plan['steps']): readonly Problem[] =>
  steps.flatMap(({ agent_role, step_id }, i) =>
    seats.some((seat) => fits(seat, { step_id, ...(agent_role !== undefined && { role: agent_role }) }))
      ? []
      : [problem(`plan.steps[${i}].agent_role`, 'role.fits', 'is no role of a participant', agent_role)],
  )

/** A session is one run's: whichever of two ended first would end it for both. Throws InvalidInput. */
export function refuseIfTaken({ state }: ProjectGraph, collab_id: string, plan_id: string): void {
  for (const { data } of state.activeRuns()) {
    const { session } = data.options as RunOptions
    if (session?.collab_id !== collab_id || data.plan_id === plan_id) continue
    const message = `is the session of plan ${data.plan_id}, which has not ended`
    throw new InvalidInput('session', [{ path: 'session.collab_id', rule: 'guard', message, found: collab_id }])
  }
}

const SESSION: { readonly [O in keyof Required<SessionAsked>]: Field | Fields } = {
  collab_id: text,
  coordinator: text,
  token_ms: wholeFrom(1, LONGEST_TIMER_MS),
  retakes: wholeFrom(0),
  brief: BINDING,
  review: BINDING,
  conflicts: {
    strategies: list,
    ranks: { '*': { says: 'a number', fits: (value) => typeof value === 'number' } },
    writes: { '*': texts },
  },
}

/** What is wrong with what was asked for in itself. */
function askedProblems(asked: SessionAsked, plan: Plan): readonly Problem[] {
  const problems = [...problemsIn(asked, SESSION, 'session')]
  if (problems.length > 0) return problems
  const wrong = blaming(problems)
  const steps = new Set(plan.steps.map(({ step_id }) => step_id))
  const refers = (reference: JsonObject, at: string) => {
    problems.push(...referenceProblems(reference, at))
    const { $from: from = THIS_STEP } = reference
    if (from !== THIS_STEP && !steps.has(String(from)))
      wrong(`${at}.$from`, 'reference.resolves', `names neither a step of the plan nor, as ${THIS_STEP}, its own`, from)
  }
  for (const word of ['brief', 'review'] as const) {
    const binding = asked[word]
    if (!binding) continue
    const at = `session.${word}`
    problems.push(...bindingProblems(binding, at))
    eachReference(binding.params, `${at}.params`, refers)
    if (isObject(binding.inverse)) eachReference(binding.inverse, `${at}.inverse`, refers)
  }
  const { strategies = [], writes = {} } = asked.conflicts ?? {}
  for (const [i, strategy] of strategies.entries())
    if (!STRATEGIES.includes(strategy))
      wrong(`session.conflicts.strategies[${i}]`, 'enum', `must be one of ${STRATEGIES.join(', ')}`, strategy)
  for (const step of Object.keys(writes))
    if (!steps.has(step))
      wrong(`session.conflicts.writes.${step}`, 'reference.resolves', 'names a step that the plan does not have')
  return problems
}

function checkCollab(collab: Collab, plan: Plan, wrong: Blame): void {
  const { mode, participants, status, context_id, governance } = collab
  if (context_id !== plan.context_id)
    wrong('collab.context_id', 'reference.context', 'is not the context of the plan', context_id)
  if (status !== 'draft' && status !== 'active') wrong('collab.status', 'guard', 'must be draft or active', status)
  if (governance?.locked)
    wrong('collab.governance.locked', 'governance.locked', 'is locked: its run could not end it', true)
  if (mode === 'pair' && participants.length !== 2)
    wrong('collab.participants', 'pair', 'must be two in mode pair', participants.length)
  const seen = new Set<string>()
  for (const [i, { participant_id }] of participants.entries()) {
    if (seen.has(participant_id))
      wrong(`collab.participants[${i}].participant_id`, 'unique', 'takes part already', participant_id)
    seen.add(participant_id)
  }
}

/** A role that nobody has here may be ranked all the same: the same ranks serve many sessions. */
function checkRanks({ conflicts }: SessionAsked, seats: readonly SessionSeat[], role: RoleFinder, wrong: Blame): void {
  for (const name of Object.keys(conflicts?.ranks ?? {}))
    if (!role(name) && !seats.some(({ names }) => names.includes(name)))
      wrong(`session.conflicts.ranks.${name}`, 'reference.resolves', 'is neither a participant nor a role')
}

function seatOf(
  { participant_id, role_id, kind, display_name }: Collab['participants'][number],
  i: number,
  role: RoleFinder,
  wrong: Blame,
): readonly SessionSeat[] {
  if (role_id === undefined || role_id.trim() === '') return [] // an invariant of the profile has named it
  const known = role(role_id)
  if (!known && !isValid('identifier', role_id)) {
    wrong(
      `collab.participants[${i}].role_id`,
      'reference.resolves',
      'is neither the id nor the name of a role',
      role_id,
    )
    return []
  }
  const id = known?.role_id ?? role_id
  const names = [id, role_id, known?.name, participant_id, display_name].filter((name) => name !== undefined)
  return [{ participant_id, role_id: id, kind, role: known?.name ?? role_id, names: [...new Set(names)] }]
}
