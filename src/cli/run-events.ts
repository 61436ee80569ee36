import type { RunHandle } from '../orchestrator/run.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { eventsIn } from '../psg/told.ts'
import type { Io } from './io.ts'

/** Prints a run's events as they are committed. `stop` prints what is there by then, and no more. */
export function printEvents(run: RunHandle, graph: ProjectGraph, io: Io): { readonly stop: () => Promise<void> } {
  const live = new AbortController()
  let after = graph.get('run', run.run_id)!.born - 1

  async function print(follow: boolean): Promise<void> {
    const from = { after, follow, ...(follow && { signal: live.signal }) }
    for await (const entry of graph.store.read(graph.id, from)) {
      for (const { event, plan_id } of eventsIn(entry))
        if (plan_id === run.plan_id) io.line(event, () => `${io.paint('dim', event.timestamp)} ${event.event_type}`)
      after = entry.revision
    }
  }

  const printing = print(true)
  printing.catch(() => undefined) // `stop` says it; unheard until then, it would end the run
  return {
    async stop() {
      live.abort()
      await printing
      await print(false)
    },
  }
}
