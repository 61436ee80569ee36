import type { ToldOfRun } from './change.ts'

/**
 * An event of the run that a commit belongs to, as the journal writes it. The runtime makes it of what the graph knows already, so a commit neither
 * copies nor checks it; nobody else can make one.
 */
export class RunEvent {
  readonly #told: ToldOfRun

  constructor(told: ToldOfRun) {
    this.#told = told
  }

  get told(): ToldOfRun {
    return this.#told
  }

  get event_type(): string {
    return 'sa' in this.#told ? this.#told.sa : this.#told.execution.event_type
  }
}
