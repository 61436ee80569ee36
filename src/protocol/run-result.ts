import type { Json, JsonObject } from './json.ts'
import type { RunError } from './run-error.ts'

/** How a run ended. */
export interface RunResult {
  readonly success: boolean
  readonly status: 'completed' | 'failed' | 'cancelled'
  /** Why it did not succeed; `step_id` where a single step was the reason. */
  readonly error?: RunError
  /** What each step gave, by step id; outputs too large to keep inline are read from the store when asked for. */
  readonly outputs: { readonly [step_id: string]: Json }
  /** Why steps failed, by step id: also those that were skipped for it, and those of a run that went on without them. Absent where none did. */
  readonly failures?: { readonly [step_id: string]: RunError }
  /** In a session, whose result stands for each thing that steps were declared to write. */
  readonly resources?: { readonly [resource: string]: { readonly step_id: string; readonly participant_id: string } }
  /** Of a run that was to compensate: what became of each action that it had done. Some can never be taken back. */
  readonly undone?: readonly Undone[]
}

/** What became of an action that was to be taken back. */
export interface Undone {
  readonly action_id: string
  readonly step_id: string
  readonly status: 'undone' | 'failed' | 'irreversible'
  readonly error?: JsonObject
  /** Of what is irreversible because nobody could say what takes it back. */
  readonly reason?: string
}
