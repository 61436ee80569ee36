import type { Action, ActionResult, RetryPolicy, Spend } from '../ael/adapter.ts'
import type { ActionLayer, Line } from '../ael/layer.ts'
import type { Ledger, LedgerLimits } from '../ael/ledger.ts'
import type { ActionError } from '../protocol/errors.ts'
import type { JsonObject } from '../protocol/json.ts'
import type { RunError } from '../protocol/run-error.ts'
import type { Undone } from '../protocol/run-result.ts'
import type {
  Acted,
  ActionRecord,
  Change,
  EventDraft,
  Node,
  NodeUpdate,
  Patch,
  Settlement,
  TurnRecord,
} from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import type { RunEvent } from '../psg/run-event.ts'
import type { Wakeable } from '../vsl/wakeable.ts'
import type { Ownership } from './owner.ts'
import type { Patiently } from './patiently.ts'
import type { ReadySet } from './ready.ts'
import type { LiveSession, SessionAsked } from './session.ts'

/** What a run was asked to be; stored with it, so that another process can go on with it. */
export type RunOptions = {
  /** How many steps may be under way at once: 32 when absent. */
  readonly concurrency?: number
  readonly budget?: Limits
  /** ISO time after which the run is ended. */
  readonly deadline?: string
  /** For steps whose binding says nothing. */
  readonly retry?: RetryPolicy
  readonly timeout_ms?: number
  /** Which profile's events are told: `sa` when absent. */
  readonly profile?: 'sa' | 'map' | 'none'
  /** The session in which the plan's steps are turns; for the profile `map`. */
  readonly session?: SessionAsked
  /** Take back what the steps have done, by their inverse actions, when the plan fails: `keep` when absent. */
  readonly on_failure?: 'keep' | 'compensate'
}

/** What a run may use up. */
export interface Limits extends LedgerLimits {
  /** Of time since the run has started, waiting included: when it is over, the run is ended. No warning is told of it. */
  readonly wall_ms?: number
}

/** One execution of a plan as its owner holds it in memory. Everything in it can be made again from the graph. */
export interface LiveRun {
  readonly id: string
  readonly plan: string
  readonly trace: string
  readonly graph: ProjectGraph
  readonly layer: ActionLayer
  readonly options: RunOptions
  readonly owner: Ownership
  /** How it asks its store. */
  readonly patiently: Patiently
  readonly bindings: ReadonlyMap<string, Node<'binding'>>
  /** Steps that the run which it goes on from has done, if it is such a one. */
  readonly carried: ReadonlySet<string> | undefined
  ready: ReadySet
  /** Who is to do what, in a run of several agents. */
  session: LiveSession | undefined
  readonly ledger: Ledger
  /** Where it waits for places, if its process has only so many actions under way at once. */
  readonly line: Line | undefined
  /** What actions that have not ended have used up beside the attempt under way, by action. */
  readonly used: Map<string, JsonObject>
  /** What the attempts under way have told of themselves that they have used up, by action. */
  readonly soFar: Map<string, Spend>
  /** What actions that have not ended carried out on their way, where some of it may not be in the graph yet, by action. */
  readonly acted: Map<string, Beside>
  /** What is under way, by action. */
  readonly flying: Map<string, Flight>
  /** What waits for a person, a signal or a time, by action. */
  readonly waiting: Map<string, Waiting>
  /** Actions that may have children which have not been let go. */
  readonly parents: Set<string>
  /** How many children each attempt waits for; none of them while it waits for its place again. */
  readonly awaiting: Map<string, number>
  /** Stores that a run is to be cancelled, if it is a child of that action. */
  readonly cancelChild: (run: string, action: string) => Promise<void>
  /** What arrived since the last tick. */
  readonly inbox: Arrival[]
  /** Events that arrived between commits; they ride in the next one. */
  readonly told: EventDraft[]
  /** Ends everything that is under way; a new one once it was used and the run is being undone. */
  abort: AbortController
  /** How many attempts have begun, and how many have ended. */
  segments: number
  ends: number
  /** How many steps have failed. */
  failed: number
  ending: Ending | undefined
  undo: Undo | undefined
  paused: boolean
  /** Its process closes: nothing more begins here. */
  leaving: boolean
  /** The graph's revision when the last tick looked at it. */
  looked: number
  /** Something else was to become active first when the last tick looked, or when it landed. */
  held: boolean
  /** Something is to go on as soon as fewer steps are under way, or nothing holds the run up. */
  crowded: boolean
  /** What was under way when it was taken up goes on, or has been ended. */
  resumed: boolean
  /** Has it look at its inbox; rings nowhere until the run is driven. */
  wake: () => void
  /** Wakes whoever waits for the run to be held up with nothing under way, or to have nothing under way but what waits for children. */
  readonly still: Wakeable
}

export interface Flight {
  readonly step: string
  readonly action: Action
  readonly execution_id: string
  readonly attempt: number
  /** The action that this one takes back. */
  readonly compensates?: string
  readonly turn?: TurnRecord
  readonly settles?: Settlement
}

/** A run on its way back. */
export interface Undo {
  /** What is still to be taken back, last done first. */
  readonly left: Flight[]
  readonly outcomes: Undone[]
}

export type Waiting =
  | Asked
  | {
      readonly on: 'timer'
      readonly timer: string
      readonly due: number
      readonly wait_ms?: number | undefined
      readonly flight: Flight
    }
  | {
      readonly on: 'signal'
      readonly name: string
      /** When it is waited for no longer, if that was said. */
      readonly until?: { readonly timer: string; readonly due: number; readonly wait_ms: number }
      readonly flight: Flight
    }

/** An action that a person was asked about. */
export interface Asked {
  readonly on: 'confirm'
  readonly confirm: string
  readonly timer: string
  readonly due: number
  readonly wait_ms?: undefined
  readonly flight: Flight
}

/** Why a run is on its way to its end. */
export interface Ending {
  readonly status: 'failed' | 'cancelled'
  readonly reason: TerminationReason
  readonly error: RunError
  /** Take back what was done before the run ends. */
  readonly undo?: true
}
export type TerminationReason = 'failure' | 'timeout' | 'user_cancel' | 'resource_exhausted' | 'error'

/** What was carried out beside an action, with the keys of it, and the attempts that led to some of it. */
export interface Beside {
  led: Led[]
  readonly keys: Set<string>
  readonly leaders: Set<string | undefined>
  /** Of all that is kept of it, as JSON text. */
  bytes: number
}

/** What an action carried out, and the attempt that led to it: of that action, or of another that it led to. */
export interface Led {
  by: string | undefined
  readonly acted: Acted
}

/** What takes an action back, as its record has it. */
export type WayBack = Pick<ActionRecord, 'inverse' | 'no_inverse'>

export type Arrival =
  | {
      readonly kind: 'completed'
      readonly flight: Flight
      readonly result: ActionResult
      readonly back?: WayBack
    }
  | { readonly kind: 'failed'; readonly flight: Flight; readonly error: ActionError; readonly duration_ms: number }
  | { readonly kind: 'due'; readonly timer: string; readonly action: string }
  | { readonly kind: 'overdue'; readonly ending: Ending }
  /** Something in the graph changed that this run may wait for. */
  | { readonly kind: 'look' }

/** What one tick decided: it lands in one commit, and then the flights take off. */
export interface Decided {
  readonly changes: Change[]
  /** What the changes say of each action that was there before, and where among them that stands. */
  readonly said: Map<string, { readonly set: Patch<ActionRecord>; readonly at: number }>
  readonly events: (EventDraft | RunEvent)[]
  readonly departures: Flight[]
  /** How many bytes it takes in of what arrived. */
  bytes: number
  /** How many bytes its questions show. */
  shown: number
  /** How much of each list there was before any step began: that much holds without the rest. */
  begins?: { readonly changes: number; readonly events: number; readonly departures: number }
  reason: string
  /** Steps begin and end in it that an earlier run has done. The run then ends with the next tick: no step may begin in the commit that ends its plan. */
  carries?: true
  /** Why the run is stopped before its own end, if it is. */
  termination?: TerminationReason
  /** The wish that was taken in, and the change that crosses it off. */
  taken?: { readonly requested: string; readonly by: NodeUpdate<'run'> }
  /** The signals that nobody has taken yet: the tick may look twice, and each serves one wait. */
  signals?: Map<string, Node<'signal'>[]>
  end: 'completed' | 'failed' | 'cancelled' | undefined
}
