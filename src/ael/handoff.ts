import { InvalidInput, type Problem } from '../protocol/errors.ts'
import { method, needed, refuseUnlessFit } from '../protocol/fields.ts'
import { isObject, type Json, type JsonObject } from '../protocol/json.ts'
import { blaming } from '../protocol/problem.ts'
import type { Adapter, Call } from './adapter.ts'
import { unknownParams } from './unknown-params.ts'

/** Work that one role gives to another. */
export interface Handoff {
  readonly from_role: string
  readonly to_role: string
  /** What the other needs to know: plan, step, instructions. */
  readonly handoff_data: JsonObject
  /** The same at every attempt: whoever takes the work knows by it that he has it already. */
  readonly idempotency_key: string
  readonly action_id: string
}

export interface HandoffOptions {
  /** Gives the work on and returns what the other role answers, or what proves that it was taken. */
  readonly hand: (handoff: Handoff, call: Call) => Promise<Json | undefined>
  /** May this role be given work? Every role may when absent. */
  readonly knows?: (role: string) => boolean
}

/** Does `agent_handoff`: params `{ from_role?, to_role, handoff_data? }`; gives `{ from_role, to_role, answer? }`. */
export function handoffAdapter(options: HandoffOptions): Adapter {
  refuseUnlessFit('handoff options', options, { hand: needed(method), knows: method })
  const { hand, knows = () => true } = options

  return {
    action_type: 'agent_handoff',
    executor_kind: 'agent',
    paramNames: PARAMS,
    label: (params) => `to ${String(params.to_role)}`,

    check(params, { role }) {
      const problems = problemsOf(params, role, knows)
      if (problems.length > 0) throw new InvalidInput('agent_handoff', problems)
    },

    async execute({ params, action_id, idempotency_key }, call) {
      const roles = { from_role: String(params.from_role ?? call.role), to_role: String(params.to_role) }
      const handoff_data = (params.handoff_data ?? {}) as JsonObject
      const answer = await hand({ ...roles, handoff_data, action_id, idempotency_key }, call)
      return { output: answer === undefined ? roles : { ...roles, answer } }
    },
  }
}

const PARAMS = ['from_role', 'to_role', 'handoff_data']

function problemsOf(params: JsonObject, role: string | undefined, knows: (role: string) => boolean): Problem[] {
  const { from_role = role, to_role, handoff_data = {} } = params
  const problems = unknownParams(params, PARAMS)
  const blame = blaming(problems)
  if (!isName(from_role)) blame('from_role', 'required', 'must name a role, unless a role asks', from_role)
  // A role that could speak for another could also use what only the other may.
  else if (role !== undefined && from_role !== role) blame('from_role', 'asker', `must be ${role}, who asks`, from_role)
  if (!isName(to_role)) blame('to_role', 'required', 'must name a role', to_role)
  else if (to_role === from_role) blame('to_role', 'other', 'must be another role', to_role)
  else if (!knows(to_role)) blame('to_role', 'known', 'is not a role that can be given work', to_role)
  if (!isObject(handoff_data)) blame('handoff_data', 'type', 'must be an object', handoff_data)
  return problems
}

const isName = (name: unknown): name is string => typeof name === 'string' && name !== ''
