import { APPROVAL } from './rules/approval.ts'
import { KEEPING } from './rules/keeping.ts'
import { LIFECYCLE } from './rules/lifecycle.ts'
import type { Rule } from './rules/rule.ts'
import { STRUCTURE } from './rules/structure.ts'

/** Everything a commit must keep true. The order is that in which a refusal lists what it found at a node. */
export const RULES: readonly Rule[] = [...STRUCTURE, ...LIFECYCLE, ...APPROVAL, ...KEEPING]

/** Those that are found while the changes are folded together, before any node can be looked at. */
export const FOLDING: readonly Pick<Rule, 'id' | 'keeps'>[] = [
  { id: 'id.unique', keeps: 'an id names one node, in this context and in all others, also after it was deleted' },
  { id: 'node.exists', keeps: 'only what is there is changed or deleted' },
  { id: 'node.deleted', keeps: 'only what was deleted comes back' },
  { id: 'edge.unique', keeps: 'a dependency is added once' },
  { id: 'edge.exists', keeps: 'only a dependency that is there is taken away' },
]
