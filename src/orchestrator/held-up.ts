import type { ProjectGraph } from '../psg/graph.ts'
import type { RunOptions } from './live.ts'

/** What is to become active before a run begins anything more. */
export interface HeldUp {
  readonly by: 'context' | 'collab'
  readonly id: string
  readonly status: string
}

export function heldUpBy(graph: ProjectGraph, { session }: RunOptions): HeldUp | undefined {
  const context = graph.get('context', graph.id)?.data.status ?? 'not there'
  if (context !== 'active') return { by: 'context', id: graph.id, status: context }
  const collab = session && graph.get('collab', session.collab_id)?.data.status
  return collab === 'suspended' ? { by: 'collab', id: session!.collab_id, status: collab } : undefined
}

/** Can it become active yet? What was archived never does. */
export const comesBack = ({ status }: HeldUp): boolean => status === 'draft' || status === 'suspended'
