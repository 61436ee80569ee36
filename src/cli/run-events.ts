import { deliveriesOf } from '../orchestrator/relay-feed.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { isObject } from '../protocol/json.ts'
import type { BornEvent } from '../psg/change.ts'
import type { ProjectGraph } from '../psg/graph.ts'
import { isKind } from '../psg/node.ts'
import type { Io } from './io.ts'
import { inOneLine } from './outputs.ts'

/** Prints a run's events as they are committed. `stop` prints what is there by then, and no more. */
export function printEvents(run: RunHandle, graph: ProjectGraph, io: Io): { readonly stop: () => Promise<void> } {
  const live = new AbortController()
  const names = namesIn(graph, run.plan_id)
  let after = graph.get('run', run.run_id)!.born - 1

  async function print(follow: boolean): Promise<void> {
    const from = { after, follow, ...(follow && { signal: live.signal }) }
    for await (const entry of graph.store.read(graph.id, from)) {
      for (const delivery of deliveriesOf(entry))
        if (delivery.plan_id === run.plan_id) io.line(delivery, () => told(delivery, names, io))
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

/** Steps as people know them. Taken down at the start: what has ended leaves memory. */
const namesIn = (graph: ProjectGraph, plan: string): ReadonlyMap<string, string> =>
  new Map(
    [...graph.state.nodesOf(plan)].flatMap((node) => (isKind(node, 'step') ? [[node.id, node.data.description]] : [])),
  )

function told({ event }: BornEvent, names: ReadonlyMap<string, string>, io: Io): string {
  const about = aboutOf(event, names)
  return `${io.paint('dim', event.timestamp)} ${event.event_type}${about === undefined ? '' : ` ${about}`}`
}

/** In one line, the step that an event is about, by its id where it has no name here, or what a plan came to. */
export function aboutOf({ payload }: BornEvent['event'], names: ReadonlyMap<string, string>): string | undefined {
  if (!isObject(payload)) return undefined
  const { resource_type, resource_id, step_id, to_status } = payload
  const step = resource_type === 'step' ? resource_id : step_id
  if (step !== undefined) return inOneLine(names.get(String(step)) ?? String(step))
  return resource_type === 'plan' ? String(to_status) : undefined
}
