/** Everything that can be wrong with a store. */
export const FAULTS = [
  'journal.form',
  'journal.gap',
  'journal.fold',
  'event.order',
  'value.form',
  'value.shape',
  'value.missing',
  'value.differs',
  'value.unknown',
  'id.unique',
  'reference.resolves',
  'plan.acyclic',
  'delta.nodes',
  'delta.edges',
  'snapshot.revision',
  'blob.missing',
  'blob.differs',
  'index.id',
  'index.running',
  'index.resting',
  'index.waiting',
  'index.timer',
  'index.ended',
  'index.open',
] as const
type Fault = (typeof FAULTS)[number]

/** Something in the store that does not hold together. */
export interface Finding {
  readonly rule: Fault
  readonly node: string
  readonly message: string
}

export type Found = (rule: Fault, node: string, message: string) => void
