/**
 * How a session decides whose turn it is: a pure function of who takes part, what has happened, and which steps could start. It is asked again after
 * every change; an empty answer means that nobody is to begin anything now.
 */
export type Mode = (board: Board) => readonly NextTurn[]

/** All that a mode sees. */
export interface Board {
  /** In the order of the session's participants. */
  readonly seats: readonly Seat[]
  /** Who coordinates where somebody does. */
  readonly coordinator: Seat
  /** Turns under way, in the order of their beginning. */
  readonly open: readonly Turn[]
  /** Those that have ended, in the order of their end. */
  readonly ended: readonly Turn[]
  /** Steps that could start and have nobody, in the plan's order. */
  readonly ready: readonly ReadyStep[]
}

/** A participant, and the names of the role in which it takes part. */
export interface Seat {
  readonly participant_id: string
  readonly role_id: string
  /** What a step may call it: the role's id and name, the participant's id and display name. */
  readonly names: readonly string[]
}

export interface ReadyStep {
  readonly step_id: string
  /** Absent: anybody may do it. */
  readonly role?: string
}

/** `work` does the step; `brief` and `review` are the coordinator's or the partner's word before and after. */
export type Purpose = 'work' | 'brief' | 'review'

export interface NextTurn {
  readonly participant_id: string
  readonly step_id: string
  readonly purpose: Purpose
}

export interface Turn extends NextTurn {
  readonly turn_number: number
  /** It has failed, or its time was over: nobody has a word about what was not done. */
  readonly failed?: boolean
}

export const fits = ({ names }: Seat, { role }: ReadyStep): boolean => role === undefined || names.includes(role)

/** The first step that a participant may do. */
export const firstFor = (seat: Seat, ready: readonly ReadyStep[]): ReadyStep | undefined =>
  ready.find((step) => fits(seat, step))

/** Those whose last turn is longest ago come first, and before them those who never had one. */
export function longestIdle(seats: readonly Seat[], ended: readonly Turn[]): readonly Seat[] {
  const lastTurn = ({ participant_id }: Seat) => ended.findLastIndex((turn) => turn.participant_id === participant_id)
  const idle = seats.map((seat) => ({ seat, since: lastTurn(seat) }))
  return idle.sort((a, b) => a.since - b.since).map(({ seat }) => seat)
}

export const turn = (seat: Seat, { step_id }: Pick<ReadyStep, 'step_id'>, purpose: Purpose = 'work'): NextTurn => ({
  participant_id: seat.participant_id,
  step_id,
  purpose,
})
