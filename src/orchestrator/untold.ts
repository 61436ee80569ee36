import type { ActionRecord, Patch } from '../psg/change.ts'
import { actedUntold } from './acted.ts'
import type { LiveRun } from './live.ts'
import { usageUntold } from './usage.ts'

/**
 * What is known of actions beside their attempts where the graph does not say it yet, by action. It comes there with the events that tell it: nobody else
 * would know after a crash.
 */
export function untold(run: LiveRun): Map<string, Patch<ActionRecord>> {
  const said = new Map<string, Patch<ActionRecord>>()
  for (const [id, usage] of usageUntold(run)) said.set(id, { usage })
  for (const [id, acted] of actedUntold(run)) said.set(id, { ...said.get(id), acted })
  return said
}
