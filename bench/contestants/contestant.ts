export type StoreName = 'memory' | 'sqlite' | 'postgres' | 'redis' | 'own'

/** Where a contestant works; the same for a second process that takes up what the first has left. */
export interface Place {
  readonly store: StoreName
  /** Of the server; empty where there is none. */
  readonly url: string
  /** A folder of this contestant alone. */
  readonly folder: string
  /** Letters, digits and underscores: for schemas, prefixes, queues and runs that no other contestant has. */
  readonly name: string
  /** What of ours is switched on beside the bare minimum; `paced` makes the bare client work between two commits. */
  readonly extra?: Extra
}
export type Extra = 'bus' | 'approval' | 'encryption' | 'files' | 'no-profile' | 'paced'

/** What every step does, told which one it is; a step that runs again is told the same. */
export type Work = (step: string) => void

/**
 * One system on one store, ready to work. Definitions that its users write once (a machine, a compiled graph, a registered workflow) are made on
 * first use and kept, so that warming up pays for them.
 */
export interface Contestant {
  readonly version: string
  /** What is left of an acknowledged step when the process dies, and when the power goes. */
  readonly durability: string
  /** One plan of steps that each wait for the one before. Resolves when its end is as durable as it gets. */
  chain?(steps: number): Promise<unknown>
  /** One step, then so many that wait for it alone, then one that waits for them all. */
  fan?(width: number): Promise<unknown>
  /** Starts so many plans that each wait for a person, and resolves when all of them do. */
  waiting?(plans: number): Promise<unknown>
  /** Takes up the chain of so many steps that a killed process has left in this place, and ends it. */
  resume?(steps: number): Promise<unknown>
  close(): Promise<unknown>
}

export type Open = (place: Place, work: Work) => Promise<Contestant>
