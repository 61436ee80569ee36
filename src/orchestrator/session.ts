import { tookAll } from '../ael/failure.ts'
import { append } from '../protocol/append.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { CollabMode } from '../protocol/types.ts'
import type { ActionRecord, Change, Node, TurnRecord } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { move } from '../psg/moves.ts'
import { ofKind } from '../psg/node.ts'
import type { BindingSpec } from './bind.ts'
import type { ConflictRules, Contender } from './conflict.ts'
import type { Board, NextTurn, ReadyStep, Seat, Turn } from './modes/mode.ts'
import { modes } from './modes/modes.ts'
import { isStepCarriedOver } from './outcome.ts'

/** What a multi-agent run is told about its session. */
export type SessionAsked = {
  /** The Collab: its mode and participants. It must be a draft or active. */
  readonly collab_id: string
  /** The participant that coordinates and broadcasts: the first when absent. */
  readonly coordinator?: string
  /** In modes with a token, how long one attempt of a turn may work before the turn is taken away: 5 minutes when absent. */
  readonly token_ms?: number
  /** How often a step is handed out again whose token has expired: twice when absent. */
  readonly retakes?: number
  /** What the coordinator does before a worker's turn, and the coordinator or partner after it. Params may hold `{ "$from": "step" }`, the step's output. */
  readonly brief?: BindingSpec
  readonly review?: BindingSpec
  /** When absent, several answers to one step are all kept, as a list. */
  readonly conflicts?: ConflictRules
}

/** The same with everything settled that the run needs to know, stored with it. */
export type Session = SessionAsked & {
  readonly mode: CollabMode
  readonly purpose: string
  readonly coordinator: string
  readonly token_ms: number
  readonly retakes: number
  readonly seats: readonly SessionSeat[]
}
export type SessionSeat = Seat & {
  readonly kind: string
  /** The role's name, where the project has such a role. */
  readonly role: string
}

/** A session as the owner of its run holds it in memory. Everything in it can be made again from the graph. */
export interface LiveSession {
  readonly options: Session
  /** By participant: a broadcast asks for thousands of them in one tick. */
  readonly seats: ReadonlyMap<string, SessionSeat>
  readonly open: Turn[]
  readonly ended: Turn[]
  /** Steps that could start and have nobody, in the plan's order. */
  readonly pool: ReadyStep[]
  /** Completed results by step, in the order in which they ended, while the step is open. */
  readonly answers: Map<string, Contender[]>
  /** Whose results stand for a resource. */
  readonly writers: Map<string, Contender[]>
  /** Resources for which another step's result stands, each with whose, by the action that has lost them. */
  readonly lost: Map<string, Map<string, string>>
  /** How often the token of a step has expired. */
  readonly expired: Map<string, number>
  /** How many turns there have been. */
  turns: number
}

export function liveSession(
  graph: ProjectGraph,
  plan: string,
  options: Session,
  actions: readonly Node<'action'>[],
): LiveSession {
  const session: LiveSession = {
    options,
    seats: new Map(options.seats.map((seat) => [seat.participant_id, seat])),
    open: [],
    ended: [],
    pool: [],
    answers: new Map(),
    writers: new Map(),
    lost: new Map(),
    expired: new Map(),
    turns: 0,
  }
  const stood = new Map<string, Contender>()
  const endOf = ({ data }: Node<'action'>) => data.ended?.at(-1)?.at ?? Number.POSITIVE_INFINITY
  for (const node of [...actions].sort((a, b) => endOf(a) - endOf(b))) {
    const { turn, step_id, status, lost_to, lost, carried_from } = node.data
    if (!turn) continue
    const { turn_number, participant_id, purpose } = turn
    const isCarried = carried_from !== undefined && isStepCarriedOver(graph.state, step_id)
    if (carried_from && purpose === 'work' && !isCarried) continue // its step is done anew, and nobody reviews what is only kept to be taken back
    if (!carried_from) session.turns = Math.max(session.turns, turn_number) // it is a session of its own, and counts its own turns
    const entry = { turn_number, participant_id, purpose, step_id }
    if (status === 'running' || status === 'waiting') session.open.push(entry)
    else session.ended.push({ ...entry, failed: status !== 'completed' })
    if (purpose === 'work' && isExpiry(session, turn, node.data.error))
      session.expired.set(step_id, (session.expired.get(step_id) ?? 0) + 1)
    if (purpose !== 'work' || status !== 'completed' || lost_to !== undefined) continue
    if (lost) session.lost.set(node.id, new Map(Object.entries(lost)))
    const result = contender(session, node.data, turn)
    const stepStatus = graph.get('step', step_id)?.data.status
    if (stepStatus === 'in_progress') append(session.answers, step_id, result)
    if (!isCarried && stepStatus !== 'completed') continue
    stood.delete(step_id) // of several answers that agree the last one stands for all
    stood.set(step_id, result)
  }
  for (const result of stood.values())
    for (const resource of claimedBy(session, result)) append(session.writers, resource, result)
  for (const step of unheld(graph, plan, actions)) putInPool(graph, plan, session, step)
  return session
}

const board = (session: LiveSession): Board => ({
  seats: session.options.seats,
  coordinator: seatOf(session, session.options.coordinator),
  open: session.open,
  ended: session.ended,
  ready: session.pool,
})

/** Whose turn it is now. */
export const nextTurns = (session: LiveSession): readonly NextTurn[] => modes[session.options.mode](board(session))

export const seatOf = ({ seats }: LiveSession, participant: string): SessionSeat => seats.get(participant)!

/** What ends a session that nobody has ended. */
export function sessionCloses(graph: ProjectGraph, { collab_id }: SessionAsked, status: string): readonly Change[] {
  const { status: stands, governance } = graph.get('collab', collab_id)?.data ?? {}
  if (governance?.locked) return [] // since it was opened: a run that could not end would do its last steps again and again
  const ends = move('collab', collab_id, status === 'completed' ? 'completed' : 'cancelled')
  if (stands === 'suspended') return [move('collab', collab_id, 'active'), ends]
  return stands === 'draft' || stands === 'active' ? [ends] : []
}

/** What MAP events are told of. */
export const subjectOf = ({ plan }: { readonly plan: string }, { options }: LiveSession) => ({ session: options, plan })

export function readyStep(graph: ProjectGraph, step_id: string): ReadyStep {
  const role = graph.get('step', step_id)?.data.agent_role
  return { step_id, ...(role !== undefined && { role }) }
}

/** Steps that come after it in the plan may have been there before it. */
export function putInPool(graph: ProjectGraph, plan: string, { pool }: LiveSession, step: string): void {
  const facts = graph.state.plan(plan)!
  let at = pool.length
  while (at > 0 && facts.ranks.get(pool[at - 1]!.step_id)! > facts.ranks.get(step)!) at--
  pool.splice(at, 0, readyStep(graph, step))
}

/** A result and whose it is. */
export function contender(
  session: LiveSession,
  { action_id, step_id, output, output_blob }: Pick<ActionRecord, 'action_id' | 'step_id' | 'output' | 'output_blob'>,
  { participant_id, role_id }: TurnRecord,
): Contender {
  const { names } = seatOf(session, participant_id)
  const result = output_blob === undefined ? { output: output ?? null } : { output_blob }
  return { action_id, step_id, participant_id, role_id, names, result }
}

/** Steps under way that nobody has: their token had expired when the last owner vanished. */
function* unheld(graph: ProjectGraph, plan: string, actions: readonly Node<'action'>[]): Iterable<string> {
  const held = new Set<string>()
  for (const { data } of actions) {
    if (data.carried_from) continue // what was left of it is done anew
    const works = data.settles !== undefined || data.turn?.purpose === 'work'
    if (works && data.status !== 'failed' && data.status !== 'cancelled') held.add(data.step_id)
  }
  for (const { id, data } of ofKind(graph.state.nodesOf(plan), 'step'))
    if (data.status === 'in_progress' && !held.has(id)) yield id
}

/** What a result may stand for: all that its step writes, but for what it has lost. */
export function claimedBy({ options, lost }: LiveSession, { action_id, step_id }: Contender): readonly string[] {
  const written = new Set(options.conflicts?.writes?.[step_id])
  return [...written].filter((resource) => !lost.get(action_id)?.has(resource))
}

/** Was it the turn whose time was over, and not the step's own, shorter timeout, or that of a server or a signal? */
export const isExpiry = ({ options }: LiveSession, { token_id }: TurnRecord, error: JsonObject | undefined): boolean =>
  token_id !== undefined && error !== undefined && tookAll(options.token_ms, error)
