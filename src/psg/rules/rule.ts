import type { Kind } from '../change.ts'
import type { Delta } from '../delta.ts'
import { KINDS, type KindFacts } from '../kinds.ts'
import type { Proposal } from '../proposal.ts'

/** Tells what is wrong, where in the node, and under which id if the rule has finer ones. */
export type Report = (path: string, message: string, id?: string) => void

/** One thing that must hold. Pure: looks at one node of a proposal and says what is wrong with it. */
export interface Rule {
  readonly id: string
  /** For people: what it keeps true. */
  readonly keeps: string
  /** Which nodes it looks at; all kinds when absent. */
  readonly kinds?: readonly Kind[]
  readonly check: (delta: Delta, proposal: Proposal, report: Report) => void
}

export const kindsWith = (has: (facts: KindFacts, kind: Kind) => unknown): readonly Kind[] =>
  (Object.keys(KINDS) as Kind[]).filter((kind) => has(KINDS[kind], kind))
