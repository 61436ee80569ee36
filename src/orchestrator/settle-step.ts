import type { Action } from '../ael/adapter.ts'
import { ApprovalNeeded } from '../protocol/errors.ts'
import { canonical, digestOfJson, type JsonObject } from '../protocol/json.ts'
import type { Settlement } from '../psg/change.ts'
import { move } from '../psg/moves.ts'
import { dependencies } from '../psg/view.ts'
import { agree, type Contender, contend, distinct, type Strategy, settle } from './conflict.ts'
import { askFor } from './gate.ts'
import type { Decided, Flight, LiveRun } from './live.ts'
import { MOST_SHOWN } from './one-commit.ts'
import { type ConflictTold, conflictDetected, conflictResolved } from './profiles/map.ts'
import { claimedBy, contender, type LiveSession, subjectOf } from './session.ts'
import { setAction } from './set-action.ts'
import { actionCompleted, actionFailed, actionStarts, attemptEnds } from './steps.ts'

/** All who had a step have answered: what contends is settled, and then the step is completed. It stays open while a person must say what stands. */
export function finishStep(run: LiveRun, session: LiveSession, step: string, decided: Decided): void {
  for (let clash = clashOf(run, session, step, decided); clash; clash = clashOf(run, session, step, decided)) {
    const { resource, contenders } = clash
    const conflict_id = run.graph.clock.uuid()
    const roles = contenders.map(({ role_id }) => role_id)
    const told = { conflict_id, resource_type: typeOf(contenders, step), resource, roles }
    decided.events.push(conflictDetected(subjectOf(run, session), told))
    const settled = settle(contenders, session.options.conflicts!)
    const candidates = distinct(contenders).map(idOf)
    if (!settled && run.ending) return // nobody would wait for what people say
    if (!settled) return ask(run, step, { conflict_id, resource, contenders, candidates }, decided)
    stands(run, session, { ...clash, step, conflict_id }, settled.winner, settled.strategy, decided)
  }
  const answers = session.answers.get(step) ?? []
  session.answers.delete(step)
  if (answers.length > 1 && !session.options.conflicts) gather(run, step, answers, decided)
  const last = answers.at(-1)
  const { writers } = session
  for (const resource of last ? claimedBy(session, last) : [])
    writers.set(resource, inOrder(run, writers.get(resource) ?? [], last!, decided))
  decided.changes.push(move('step', step, 'completed'))
  run.ready.satisfied(step)
}

/**
 * Those who wrote the same, in the order in which they ended: others may have ended while a person was asked about this one, or while somebody else was
 * to answer its step.
 */
function inOrder(run: LiveRun, others: readonly Contender[], mine: Contender, decided: Decided): Contender[] {
  const endOf = ({ action_id: id }: Contender): number =>
    (decided.said.get(id)?.set.ended ?? run.graph.get('action', id)?.data.ended)!.at(-1)!.at
  const before = others.findLastIndex((other) => endOf(other) < endOf(mine))
  return others.toSpliced(before + 1, 0, mine)
}

/** A person has said whether a result shall stand. False when none is left that anybody wants. */
export function conflictDecided(
  run: LiveRun,
  session: LiveSession,
  flight: Settling,
  approved: boolean,
  decided: Decided,
): boolean {
  const { settles, step } = flight
  const [asked, ...others] = settles.candidates
  const contenders = settles.contenders.map((id) => {
    const record = run.graph.get('action', id)!.data // it may have lost to others since
    return contender(session, record, record.turn!)
  })
  if (!approved) {
    if (others.length === 0) return false
    actionFailed(run, flight, { code: 'action_rejected', message: 'somebody did not want this result' }, decided)
    ask(run, step, { ...settles, contenders, candidates: others }, decided)
    return true
  }
  attemptEnds(
    run,
    flight,
    {
      status: 'completed',
      duration_ms: 0,
      result: { action_id: flight.action.action_id, status: 'completed', duration_ms: 0 },
    },
    decided,
  )
  actionCompleted(run, flight, { output: { stands: asked! } }, {}, decided)
  const winner = contenders.find((one) => one.action_id === asked)!
  stands(run, session, { ...settles, step, contenders }, winner, 'escalation', decided)
  finishStep(run, session, step, decided)
  return true
}

/** What a person is asked to carry out: to say whether the first candidate's result shall stand. */
export const settlingAction = (
  { action_id, idempotency_key }: Pick<Action, 'action_id' | 'idempotency_key'>,
  { resource, candidates, contenders }: Conflict,
): Action => ({
  action_id,
  action_type: 'resolve_conflict',
  executor_kind: 'external',
  params: { resource, stands: candidates[0]!, contenders },
  idempotency_key,
})

/** A flight that waits for a person to settle a conflict. */
export type Settling = Flight & { readonly settles: Conflict }
type Conflict = Extract<Settlement, { what: 'conflict' }>
export const isSettling = (flight: Flight): flight is Settling => flight.settles?.what === 'conflict'

/** What answers to one step contend for. */
const answersTo = (step: string): string => `step:${step}`

/** Answers to one step contend for its output; for what several steps write, results of several do. A name tells neither: a flow may call what it writes `step:…`. */
const typeOf = (contenders: readonly Contender[], step: string): ConflictTold['resource_type'] =>
  contenders.every(({ step_id }) => step_id === step) ? 'step_output' : 'resource'

interface Clash {
  readonly resource: string
  readonly contenders: readonly Contender[]
}

/** What contends now: the answers to this step among each other, or with those who wrote the same and neither waited for the other. */
function clashOf(run: LiveRun, session: LiveSession, step: string, decided: Decided): Clash | undefined {
  if (!session.options.conflicts) return undefined
  const answers = session.answers.get(step) ?? []
  if (contend(answers)) return { resource: answersTo(step), contenders: answers }
  const mine = answers.at(-1)
  if (!mine) return undefined
  for (const resource of claimedBy(session, mine)) {
    const writers = session.writers.get(resource) ?? []
    if (!writers.some((one) => !agree(one, mine) && isRival(run, one, mine))) continue
    const rivals = writers.filter((one) => isRival(run, one, mine))
    return { resource, contenders: inOrder(run, rivals, mine, decided) }
  }
  return undefined
}

function isRival(run: LiveRun, one: Contender, other: Contender): boolean {
  const { state } = run.graph
  const waitsFor = (a: Contender, b: Contender) => dependencies(state, a.step_id).some((step) => step.id === b.step_id)
  return one.participant_id !== other.participant_id && !waitsFor(other, one) && !waitsFor(one, other)
}

/** One result stands; the others are marked as having lost to it. */
function stands(
  run: LiveRun,
  session: LiveSession,
  { contenders, step, resource, conflict_id }: Clash & { readonly step: string; readonly conflict_id: string },
  winner: Contender,
  strategy: Strategy,
  decided: Decided,
): void {
  decided.events.push(conflictResolved(subjectOf(run, session), conflict_id, strategy, winner.role_id))
  const isOfStep = typeOf(contenders, step) === 'step_output'
  const hasLost = (id: string) => !isOfStep && session.lost.get(id)?.has(resource)
  const losers = new Set(contenders.map(idOf).filter((id) => id !== winner.action_id && !hasLost(id)))
  for (const id of losers) {
    if (isOfStep) setAction(decided, id, { lost_to: winner.action_id })
    else {
      const lost = new Map(session.lost.get(id)).set(resource, winner.action_id) // what else it wrote may still stand
      session.lost.set(id, lost)
      setAction(decided, id, { lost: Object.fromEntries(lost) })
    }
  }
  const left = (list: readonly Contender[] = []) => list.filter((one) => !losers.has(one.action_id))
  if (isOfStep) session.answers.set(step, left(session.answers.get(step)))
  else if (session.writers.has(resource)) session.writers.set(resource, left(session.writers.get(resource)))
}

/** Asks a person whether the first candidate's result shall stand. */
function ask(run: LiveRun, step: string, conflict: Asking, decided: Decided): void {
  const { uuid } = run.graph.clock
  const { conflict_id, resource, candidates } = conflict
  const contenders = conflict.contenders.map(idOf)
  const settles = { what: 'conflict', conflict_id, resource, contenders, candidates } as const
  const action_id = uuid()
  const idempotency_key = `${run.plan}:${step}:${conflict_id}:${candidates.length}`
  const action = settlingAction({ action_id, idempotency_key }, settles)
  const flight: Flight = { step, action, execution_id: uuid(), attempt: 1, settles }
  actionStarts(run, flight, decided)
  const whose = conflict.contenders.find((one) => one.action_id === candidates[0])!.participant_id
  const resource_type = typeOf(conflict.contenders, step)
  const what = resource_type === 'step_output' ? run.graph.get('step', step)!.data.description : resource
  const shown = { ...action.params, resource_type, results: resultsShown(conflict.contenders) }
  const question = {
    action_id,
    digest: digestOfJson({ ...shown, plan_id: run.plan, conflict_id }),
    tool: action.action_type,
    arguments: shown,
    description: `shall the result of ${whose} stand for ${what}?`,
  }
  askFor(run, flight, new ApprovalNeeded(question), decided)
}
interface Asking extends Clash {
  readonly conflict_id: string
  readonly candidates: readonly string[]
}

const idOf = ({ action_id }: Contender): string => action_id

/** Whose result it is, and what it came to: of what would make a question too large, how it begins. */
function resultsShown(contenders: readonly Contender[]): JsonObject[] {
  const most = Math.floor(MOST_SHOWN / contenders.length)
  return contenders.map(({ action_id, participant_id, result }) => {
    const text = canonical(result)
    const said = text.length <= most ? result : { begins: text.slice(0, most) }
    return { action_id, participant_id, ...said }
  })
}

/** Nobody said how answers are settled, so all of them are the step's output. */
function gather(run: LiveRun, step: string, answers: readonly Contender[], decided: Decided): void {
  const { uuid } = run.graph.clock
  const action_id = uuid()
  const output = answers.map(({ participant_id, role_id, result }) => ({ participant_id, role_id, ...result }))
  decided.changes.push({
    kind: 'node_add',
    node: 'action',
    id: action_id,
    data: {
      action_id,
      step_id: step,
      idempotency_key: `${run.plan}:${step}:answers`,
      status: 'completed',
      attempts: 0,
      failures: 0,
      execution_id: uuid(),
      output,
      settles: { what: 'answers' },
    },
  })
}
