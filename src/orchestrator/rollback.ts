import { isEmpty, type Left, portionOf, type RollbackPlan } from '../drift/rollback.ts'
import type { TakenBack } from '../drift/take-back.ts'
import { InvalidInput, NotFound, RevisionConflict, RuleViolation } from '../protocol/errors.ts'
import { type Field, flag, oneOf, refuseUnlessFit, signal, text } from '../protocol/fields.ts'
import type { Json } from '../protocol/json.ts'
import { eitherOf } from '../protocol/on-abort.ts'
import type { EventDraft, Node } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { insist } from '../psg/insist.ts'
import { changedBy, onceChecked, untouched } from '../psg/untouched.ts'
import { thisHolder } from '../vsl/holder.ts'
import { childrenLeft } from './children-under-way.ts'
import { type Ownership, own } from './owner.ts'
import { cutOffEvents, type EffectOutcome, takeBackEffect } from './rollback-effect.ts'
import { permission, withdrawQuestions } from './rollback-gate.ts'
import { failed, leftBy, untried } from './rollback-left.ts'
import { lineOf, type Planned, planFor, type RollbackParts } from './rollback-plan.ts'
import {
  beginning,
  ending,
  executedEvent,
  type Journey,
  openTraces,
  placeOfRun,
  plannedEvent,
  refuseIfRerun,
  takenOver,
  write,
} from './rollback-trace.ts'

export interface RollbackOptions {
  /** Only say what would be done, what cannot be undone, and what somebody else changed since. */
  readonly dryRun?: boolean
  /** What cannot be undone is asked about first. `leave`: go back as far as it goes. */
  readonly irreversible?: 'ask' | 'leave'
  readonly actor?: string
  readonly reason?: string
  /** Ends the inverse action under way, and has those that were not begun fail. */
  readonly signal?: AbortSignal
}

export interface RollbackReport {
  /** `nothing`: there was nothing to take back. `waiting`: people are asked first. `incomplete`: `left` says what is not as it was. */
  readonly status: 'planned' | 'nothing' | 'waiting' | 'done' | 'incomplete'
  readonly plan: RollbackPlan
  /** Where the way back is told. */
  readonly trace_id?: string
  /** The question that waits: call again when it is answered. */
  readonly confirm_id?: string
  readonly effects: readonly EffectOutcome[]
  readonly files: readonly TakenBack[]
  readonly left: readonly Left[]
  /** Runs that its steps have submitted, or those of the runs that it goes on from, where these have no `inverse` that names an action: what they did stays, and each is taken back by its own id. */
  readonly children: readonly string[]
}
type Told = Omit<RollbackReport, 'children'>

const MOST_ATTEMPTS = 5

/**
 * Takes back what a run did that has ended: outside effects by their inverse actions, last done first and all of them attempted, then files and graph
 * together. What the run was and how it ended stays; the way back is told in a trace of its own. Throws NotFound, InvalidInput for a run that goes
 * on, and Refused for one whose work another run has taken over, or that somebody else takes back: perhaps only since we were silent for too long.
 */
export async function rollback(
  parts: RollbackParts,
  runId: string,
  options: RollbackOptions = {},
): Promise<RollbackReport> {
  refuseUnlessFit('rollback', options, OPTIONS)
  const { graph } = parts
  const run = await endedRun(graph, runId)
  const told = options.dryRun ? reported('planned', await planFor(parts, run)) : await asOwner(parts, run, options)
  return { ...told, children: await childrenOfLine(graph, run) }
}

/** Those of the runs that it goes on from are its to name: these are not taken back themselves any more. */
async function childrenOfLine(graph: ProjectGraph, run: Node<'run'>): Promise<readonly string[]> {
  const left: string[] = []
  for (const one of await lineOf(graph, run))
    left.unshift(...(await graph.reading(placeOfRun(one), () => childrenLeft(graph, one.data.plan_id))))
  return left
}

async function asOwner(parts: RollbackParts, run: Node<'run'>, options: RollbackOptions): Promise<Told> {
  const { graph } = parts
  const { store, clock } = graph
  const owner = await own(`rollback/${run.id}`, { store, clock, holder: thisHolder(clock.uuid()) })
  if (!owner) throw takenOver(run)
  try {
    return await goBack(parts, run, options, owner)
  } finally {
    await owner.release().catch(() => undefined) // then it runs out: what came of the rollback stands
  }
}

const OPTIONS: { readonly [O in keyof Required<RollbackOptions>]: Field } = {
  dryRun: flag,
  irreversible: oneOf('ask', 'leave'),
  actor: text,
  reason: text,
  signal,
}

async function goBack(
  parts: RollbackParts,
  run: Node<'run'>,
  options: RollbackOptions,
  owner: Ownership,
): Promise<Told> {
  const { graph } = parts
  const plan = await planFor(parts, run)
  const by = { actor: options.actor ?? 'rollback', reason: options.reason ?? `run ${run.id} is taken back` }
  const asks = !isEmpty(plan) && options.irreversible !== 'leave'
  await withdrawQuestions(graph, run, asks ? plan : undefined)
  if (isEmpty(plan)) return toldToItsEnd(parts, run, plan, by)
  const said = asks ? await permission(graph, run, plan) : undefined
  if (said?.status === 'pending') return reported('waiting', plan, { confirm_id: said.confirm_id })
  if (said?.status === 'rejected')
    return reported('incomplete', plan, { confirm_id: said.confirm_id, left: [...leftBy(plan), REJECTED] })

  const journey: Journey = { graph, layer: parts.layer, run, ...by, trace_id: graph.clock.uuid() }
  const begins = () => beginning(journey, plan.revision, said?.gate)
  const events = [...(await cutOffTold(journey)), plannedEvent(journey, plan)]
  await insist(graph, begins, { ...by, reads: placeOfRun(run), events })
  const { signal, unlink } = eitherOf(owner.lost, options.signal)
  const effects: EffectOutcome[] = []
  try {
    for (const [at, effect] of plan.effects.entries()) {
      effects.push(await takeBackEffect(journey, effect, at, owner, signal))
      if (owner.lost.aborted) throw takenOver(run) // whoever goes on with it begins with what was under way
    }
  } finally {
    unlink()
  }
  const { files, last } = await filesAndGraph(parts, journey)
  const left = [
    ...leftBy({ ...last, irreversible: plan.irreversible }),
    ...failed(effects, files),
    ...untried(last.effects, effects),
  ]
  return ended(journey, plan, { effects, files, left })
}

/** There is nothing left to take back. A way back that was cut off after all of it had been done is told to its end. */
async function toldToItsEnd(
  { graph, layer }: RollbackParts,
  run: Node<'run'>,
  plan: RollbackPlan,
  by: { readonly actor: string; readonly reason: string },
): Promise<Told> {
  const open = await graph.reading(placeOfRun(run), () => openTraces(graph, run).at(-1))
  if (!open) return reported(leftBy(plan).length > 0 ? 'incomplete' : 'nothing', plan)
  return ended({ graph, layer, run, ...by, trace_id: open.id }, plan, { effects: [], files: [], left: leftBy(plan) })
}

async function ended(
  journey: Journey,
  plan: RollbackPlan,
  came: Pick<Told, 'effects' | 'files' | 'left'>,
): Promise<Told> {
  const { trace_id } = journey
  const { effects, files, left } = came
  const outcome = { effects: effects as unknown as Json, files: files as unknown as Json, left }
  const events = [...(await cutOffTold(journey)), executedEvent(journey, outcome)]
  await write(journey, () => ending(journey, left.length === 0), events)
  return reported(left.length === 0 ? 'done' : 'incomplete', plan, { trace_id, ...came })
}

const cutOffTold = (journey: Journey): Promise<readonly EventDraft[]> =>
  journey.graph.reading(placeOfRun(journey.run), () => [...cutOffEvents(journey)])

const REJECTED: Left = { what: 'graph', name: 'rollback', reason: 'people do not want it' }

async function endedRun(graph: ProjectGraph, id: string): Promise<Node<'run'>> {
  await graph.refresh()
  const run = await graph.find('run', id)
  if (!run) throw new NotFound('run', id)
  if (run.data.phase !== 'ended')
    throw new InvalidInput('rollback', [
      { path: 'run', rule: 'ended', message: `${id} goes on: cancel it, or wait until it has ended` },
    ])
  await graph.reading(placeOfRun(run), () => refuseIfRerun(graph, run))
  return run
}

/**
 * Files and graph go back together, very many files in several commits; planned anew for each, and when somebody has changed any of it meanwhile, so
 * that nobody is overwritten. Who is cut off in between goes on with what is left.
 */
async function filesAndGraph(
  parts: RollbackParts,
  { run, actor, reason }: Journey,
): Promise<{ files: readonly TakenBack[]; last: RollbackPlan }> {
  const files: TakenBack[] = []
  const tried = new Set<string>()
  for (let attempt = 1; ; ) {
    const last = await planFor(parts, run)
    const { portion, isLast } = portionOf(last.files, tried)
    try {
      files.push(...(await takenBack(parts, { ...last, files: portion }, { run: run.id, actor, reason })))
      for (const { path } of portion) tried.add(path)
      if (isLast) return { files, last }
      attempt = 1
    } catch (error) {
      if (!isOvertaken(error, parts.graph, last.revision) || attempt++ === MOST_ATTEMPTS) throw error
    }
  }
}

/** A rule that stands in the way by what was written since is found, and left in its way, by the next plan. */
const isOvertaken = (error: unknown, { revision }: ProjectGraph, planned: number): boolean =>
  error instanceof RevisionConflict || (error instanceof RuleViolation && revision > planned)

async function takenBack(
  { graph, tracker }: RollbackParts,
  { files, changes, revision }: Planned,
  by: { readonly run: string; readonly actor: string; readonly reason: string },
): Promise<readonly TakenBack[]> {
  if (files.length + changes.length === 0) return []
  if (tracker) return tracker.takeBack({ files, changes, revision, ...by })
  const refuseIfTouched = await untouched(graph, revision, changedBy(changes))
  await graph.commit(onceChecked(refuseIfTouched, changes), by)
  return []
}

const reported = (status: Told['status'], plan: RollbackPlan, more: Partial<Told> = {}): Told => ({
  status,
  plan,
  effects: [],
  files: [],
  left: leftBy(plan),
  ...more,
})
