import type { Io } from './io.ts'

/** One verb of the command line. Its code is loaded when it is called, so that starting up costs the same however many there are. */
export interface Verb {
  /** As commander writes it: `run <flow>`, `confirm approve <id>`. */
  readonly usage: string
  readonly says: string
  readonly options?: readonly VerbOption[]
  readonly examples: readonly string[]
  /** It goes on for as long as somebody reads what it tells. */
  readonly onlyTells?: boolean
  readonly load: () => Promise<VerbModule>
}

export interface VerbOption {
  /** As commander writes it: `--role <role>`. */
  readonly flags: string
  readonly says: string
  readonly fallback?: string
  /** Everything else is refused before anything is opened. */
  readonly choices?: readonly string[]
}

export interface VerbModule {
  /** The exit code. Throws an MplpError for what the caller must mend. */
  readonly run: (call: VerbCall) => Promise<number>
}

export interface VerbCall {
  readonly args: readonly string[]
  readonly options: { readonly [name: string]: unknown }
  readonly io: Io
}
