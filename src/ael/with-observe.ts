import { type Clock, systemClock } from '../protocol/clock.ts'
import type { ActionError } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'
import type { Action, ActionResult, Adapter, Call, Outcome, Spend } from './adapter.ts'
import { decorated, type Passage } from './decorate.ts'
import { budgetEvent, labelOf } from './events.ts'
import { brief, finalFailure, overBudget, toActionError, withSpent } from './failure.ts'
import type { Attempt, AttemptEnd, Budget, BudgetState, Hands, Observer } from './layer.ts'
import { refuseUnlessAmounts, spentBy } from './outputs.ts'
import { isReadOnly } from './read-only.ts'
import { type Redactor, redactor } from './redact.ts'
import { secretsOf } from './secrets.ts'
import { refuseUnlessSpend } from './spend.ts'

export interface ObserveOptions extends Pick<Hands, 'budget' | 'emit'> {
  /** Unless the call brings its own. */
  readonly observer?: Observer
  readonly redactor?: Redactor
  readonly clock?: Clock
}

export function withObserve(adapter: Adapter, options: ObserveOptions = {}): Adapter {
  const { budget, emit, clock = systemClock, redactor: redact = redactor(() => secretsOf(adapter)) } = options

  const tell = async (attempt: Attempt, state: BudgetState): Promise<void> =>
    emit?.(budgetEvent(attempt, attempt.action.action_id, state))

  return decorated(adapter, async (action, call) => {
    const observer = call.observer ?? options.observer
    const attempt = attemptOf(adapter, action, call, redact)
    const estimate = budget === undefined ? {} : (adapter.estimate?.(action.params) ?? {})
    if (budget !== undefined) await reserve(budget, attempt, estimate, tell)
    try {
      const telling = observer?.started(attempt)
      if (telling) await telling
    } catch (error) {
      await budget?.release(attempt.execution_id)
      throw error
    }
    let resume = call.resume
    let told: Spend | undefined
    const checkpoint: Call['checkpoint'] = async (state, spent = told) => {
      told = spent // a later one that says nothing of it takes nothing back
      resume = redact.json(state)
      await call.checkpoint(resume, spent)
      // A model that is asked in rounds may use up many times what it had set apart for the first.
      if (budget === undefined || spent === undefined) return
      await reserve(budget, attempt, most(estimate, spent), tell).catch((error) => {
        throw withSpent(error, spent)
      })
    }
    const began = clock.now()
    const since = () => Math.max(0, clock.now() - began)
    /** Once the work is done, a sink that fails must not look like work that failed: it would be done again. */
    const conclude = async (end: AttemptEnd): Promise<void> => {
      try {
        if (budget !== undefined) await charge(budget, attempt, chargeOf(end), tell)
        const telling = observer?.ended(attempt, end)
        if (telling) await telling
      } catch (cause) {
        throw finalFailure(`${attempt.label} has ended, but its end could not be recorded`, { cause })
      }
    }

    let outcome: Outcome
    try {
      outcome = await adapter.execute(action, { ...call, checkpoint })
    } catch (thrown) {
      const failure = sound(toActionError(thrown), attempt.label)
      const charged = failure.spent === undefined ? withSpent(failure, told) : failure
      const redacted = redact.error(charged) as ActionError
      const error = resumable(brief(redacted), resume) // not the other way round: half a secret would not be known as one
      await conclude({ status: statusOf(error), duration_ms: since(), error })
      throw error
    }
    await conclude(completed(action, outcome, since()))
    return outcome
  })
}

/** What an attempt is charged: nothing where it failed and says of nothing that it cost. One that pauses goes on later, and is an action only then. */
export function chargeOf(end: AttemptEnd): Spend | undefined {
  if (end.status === 'completed') return { actions: 1, ...spentBy(end.result) }
  const { spent } = end.error
  return spent && { ...(end.status !== 'paused' && { actions: 1 }), ...spent }
}

export const resultOf = ({ action_id }: Action, outcome: Outcome, duration_ms: number): ActionResult =>
  Object.assign({ action_id, status: 'completed', duration_ms } as const, outcome)

function attemptOf(adapter: Adapter, action: Action, call: Passage, redact: Redactor): Attempt {
  const { execution_id, attempt, role, run, parent_execution_id } = call
  return {
    action,
    label: redact.text(labelOf(adapter, action.params, action.action_type)),
    read_only: isReadOnly(adapter, action.params),
    execution_id,
    attempt,
    ...(role === undefined ? {} : { role }),
    ...(run === undefined ? {} : { run }),
    ...(parent_execution_id === undefined ? {} : { parent_execution_id }),
  }
}

type Tell = (attempt: Attempt, state: BudgetState) => Promise<void>

async function reserve(budget: Budget, attempt: Attempt, estimate: Spend, tell: Tell): Promise<void> {
  const { action, execution_id, role, run } = attempt
  refuseUnlessSpend(estimate, attempt.label)
  const answer = await budget.reserve({
    action_id: action.action_id,
    execution_id,
    spend: { actions: 1, ...estimate },
    ...(role === undefined ? {} : { role }),
    ...(run === undefined ? {} : { run }),
  })
  if (answer.state !== 'ok') await tell(attempt, answer)
  if (answer.state === 'exceeded') throw overBudget(answer.message ?? `there is no budget left for ${attempt.label}`)
}

/** Of each unit the larger. */
function most(estimate: Spend, spent: Spend): Spend {
  const larger: Record<string, number> = { ...estimate }
  for (const [unit, amount] of Object.entries(spent)) larger[unit] = Math.max(larger[unit] ?? 0, amount)
  return larger
}

async function charge(budget: Budget, attempt: Attempt, spent: Spend | undefined, tell: Tell): Promise<void> {
  if (spent === undefined) return budget.release(attempt.execution_id)
  const answer = await budget.settle(attempt.execution_id, spent)
  if (answer.state !== 'ok') await tell(attempt, answer)
}

const completed = (action: Action, outcome: Outcome, duration_ms: number): AttemptEnd => ({
  status: 'completed',
  duration_ms,
  result: resultOf(action, outcome, duration_ms),
})

const statusOf = ({ code }: ActionError) =>
  code === 'approval_needed' ? 'paused' : code === 'action_aborted' ? 'cancelled' : 'failed'

/** A failure that says what it spent in no amounts is a failure all the same, but not one that can be charged. */
function sound(error: ActionError, what: string): ActionError {
  try {
    refuseUnlessAmounts({ ...error.spent }, what)
    return error
  } catch (refusal) {
    return finalFailure(`${error.message}; ${(refusal as Error).message}`, { cause: error })
  }
}

/** With the checkpoint of this very attempt, not of one that it carried out. */
function resumable(copy: ActionError, resume: Json | undefined): ActionError {
  const error: { resume?: Json } & ActionError = copy
  if (resume === undefined) delete error.resume
  else error.resume = resume
  return error
}
