/** How often something that may pass is tried again, and how long is waited between. */
export type RetryPolicy = {
  /** How the delay grows: `exponential`, doubling each time, when absent. */
  readonly strategy?: 'none' | 'fixed' | 'exponential'
  /** All executions, the first included. */
  readonly max_attempts: number
  readonly delay_ms?: number
  readonly max_delay_ms?: number
  /** A share of the delay, 0 to 1, that is left to chance. */
  readonly jitter?: number
}
