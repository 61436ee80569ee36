/** Who must agree, and until when. */
export type Approvers = {
  /** Who may decide; anybody when absent. */
  readonly roles?: readonly string[]
  /** How many different roles must approve: 1 when absent. */
  readonly needed?: number
  /** A week when absent. */
  readonly expires_ms?: number
}

/** Who must agree, and what they are told. */
export type AskPeople = Approvers & {
  readonly requested_by_role?: string
  readonly reason?: string
}
