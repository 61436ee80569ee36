import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { type Fields, list, object, problemsIn, timeout } from '../protocol/fields.ts'
import { breachProblems } from '../protocol/invariants.ts'
import { isObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import type { Collab, Plan, Role } from '../protocol/types.ts'
import { isValid } from '../protocol/validate.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { ConflictRules } from './conflict.ts'
import { STRATEGIES } from './conflict.ts'
import type { RunOptions } from './live.ts'
import { fits } from './modes/mode.ts'
import { mapBreaches } from './profiles/map.ts'
import type { Session, SessionAsked, SessionSeat } from './session.ts'
import { BINDING } from './submit-check.ts'

const TOKEN_MS = 5 * 60_000
const RETAKES = 2
const KNOWN = ['collab_id', 'coordinator', 'token_ms', 'retakes', 'brief', 'review', 'conflicts']

/**
 * Settles what a session needs before its first turn: each participant in its role, by id or by name, and for each step somebody who may do it.
 * Throws InvalidInput naming everything that is missing.
 */
export function openSession(
  asked: SessionAsked,
  collab: Collab,
  plan: Plan,
  role: (idOrName: string) => Role | undefined,
  switched?: ReadonlySet<string>,
): Session {
  const problems: Problem[] = [...breachProblems(mapBreaches({ collab }, switched))]
  const wrong: Wrong = (path, rule, message, found) =>
    void problems.push({ path, rule, message, ...(found !== undefined && { found: shown(found) }) })
  checkAsked(asked, plan, wrong)
  checkCollab(collab, plan, wrong)
  const seats = collab.participants.flatMap((participant, i) => seatOf(participant, i, role, wrong))
  if (seats.length === collab.participants.length)
    for (const [i, { agent_role, step_id }] of plan.steps.entries())
      if (!seats.some((seat) => fits(seat, { step_id, ...(agent_role !== undefined && { role: agent_role }) })))
        wrong(`plan.steps[${i}].agent_role`, 'role.fits', 'is no role of a participant', agent_role)
  const coordinator = asked.coordinator ?? collab.participants[0]!.participant_id
  if (!collab.participants.some(({ participant_id }) => participant_id === coordinator))
    wrong('session.coordinator', 'reference.resolves', 'is no participant', coordinator)
  if (problems.length > 0) throw new InvalidInput('session', problems)
  const { mode, purpose } = collab
  return { token_ms: TOKEN_MS, retakes: RETAKES, ...asked, mode, purpose, coordinator, seats }
}

/** A session is one run's: whichever of two ended first would end it for both. Throws InvalidInput. */
export function refuseIfTaken({ state }: ProjectGraph, collab_id: string, plan_id: string): void {
  for (const { data } of state.activeRuns()) {
    const { session } = data.options as RunOptions
    if (session?.collab_id !== collab_id || data.plan_id === plan_id) continue
    const message = `is the session of plan ${data.plan_id}, which has not ended`
    throw new InvalidInput('session', [{ path: 'session.collab_id', rule: 'guard', message, found: collab_id }])
  }
}

type Wrong = (path: string, rule: string, message: string, found?: unknown) => void

function checkAsked(asked: SessionAsked, plan: Plan, wrong: Wrong): void {
  for (const key of Object.keys(asked))
    if (!KNOWN.includes(key))
      wrong(`session.${key}`, 'extra_forbidden', `is not part of a session; known are ${KNOWN.join(', ')}`)
  const { token_ms = TOKEN_MS, retakes = RETAKES, conflicts } = asked
  if (!Number.isSafeInteger(token_ms) || token_ms < 1)
    wrong('session.token_ms', 'minimum', 'must be a whole number above 0', token_ms)
  else if (!timeout.fits(token_ms)) wrong('session.token_ms', 'range', `must be ${timeout.says}`, token_ms)
  if (!Number.isSafeInteger(retakes) || retakes < 0)
    wrong('session.retakes', 'minimum', 'must be a whole number, at least 0', retakes)
  for (const word of ['brief', 'review'] as const) {
    const binding: unknown = asked[word]
    if (binding === undefined) continue
    if (!isObject(binding) || typeof binding.action_type !== 'string' || binding.action_type === '')
      wrong(`session.${word}.action_type`, 'type', 'must be a name', Object(binding).action_type)
    else if (!isObject(binding.params)) wrong(`session.${word}.params`, 'type', 'must be an object', binding.params)
    else
      for (const { path, rule, message } of problemsIn(binding, BINDING, `session.${word}`)) wrong(path, rule, message)
  }
  if (conflicts !== undefined) checkConflicts(conflicts, plan, wrong)
}

const CONFLICTS: Fields = { strategies: list, ranks: object, writes: object }

function checkConflicts(conflicts: ConflictRules, plan: Plan, wrong: Wrong): void {
  const problems = problemsIn(conflicts, CONFLICTS, 'session.conflicts')
  for (const { path, rule, message, found } of problems) wrong(path, rule, message, found)
  if (problems.length > 0) return
  const { strategies = [], ranks = {}, writes = {} } = conflicts
  for (const [i, strategy] of strategies.entries())
    if (!STRATEGIES.includes(strategy))
      wrong(`session.conflicts.strategies[${i}]`, 'enum', `must be one of ${STRATEGIES.join(', ')}`, strategy)
  for (const [name, rank] of Object.entries(ranks))
    if (typeof rank !== 'number') wrong(`session.conflicts.ranks.${name}`, 'type', 'must be a number', rank)
  for (const [step, resources] of Object.entries(writes)) {
    if (!plan.steps.some(({ step_id }) => step_id === step))
      wrong(`session.conflicts.writes.${step}`, 'reference.resolves', 'names a step that the plan does not have')
    if (!Array.isArray(resources) || resources.some((resource) => typeof resource !== 'string'))
      wrong(`session.conflicts.writes.${step}`, 'type', 'must be a list of names', resources)
  }
}

function checkCollab(collab: Collab, plan: Plan, wrong: Wrong): void {
  const { mode, participants, status, context_id } = collab
  if (context_id !== plan.context_id)
    wrong('collab.context_id', 'reference.context', 'is not the context of the plan', context_id)
  if (status !== 'draft' && status !== 'active') wrong('collab.status', 'guard', 'must be draft or active', status)
  if (mode === 'pair' && participants.length !== 2)
    wrong('collab.participants', 'pair', 'must be two in mode pair', participants.length)
  const seen = new Set<string>()
  for (const [i, { participant_id }] of participants.entries()) {
    if (seen.has(participant_id))
      wrong(`collab.participants[${i}].participant_id`, 'unique', 'takes part already', participant_id)
    seen.add(participant_id)
  }
}

function seatOf(
  { participant_id, role_id, kind, display_name }: Collab['participants'][number],
  i: number,
  role: (idOrName: string) => Role | undefined,
  wrong: Wrong,
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
