import type { BornEvent, Commit, EntryBody } from '../psg/change.ts'
import { eventsIn } from '../psg/told.ts'
import type { Backend } from '../vsl/backend.ts'
import type { RuntimeContext } from './flow.ts'
import type { FlowMemory } from './flow-record.ts'

/** The older half of the published store. One that has it is given the events as they come, and a snapshot after each module and at the end. */
export interface SnapshotStore {
  saveSnapshot(runId: string, context: unknown): Promise<void>
  appendEvents(runId: string, events: readonly unknown[]): Promise<void>
  getEvents(runId: string): Promise<readonly unknown[]>
}

/** Brings what is committed for a flow to its caller: once each, in the graph's order, as soon as the commit has landed. */
export interface FlowEvents {
  /** From now on this graph too, above a revision. */
  follow(graph: string, after: number): void
  /** A commit that has just landed. One whose predecessors are missing waits for `catchUp`. */
  take(commit: Commit): void
  /** Reads what was missed from the journal, and hands all of it on to the caller's store, with a snapshot. */
  catchUp(): Promise<void>
  /** The plan whose events are the flow's, whoever commits them, once there is one. */
  readonly plans: Set<string>
}

export function flowEvents(
  store: Backend,
  ctx: RuntimeContext,
  { ids }: FlowMemory,
  snapshots: SnapshotStore | undefined,
): FlowEvents {
  const { runId } = ctx.ids
  const known = new Set(ctx.events.map(idOf))
  const seen = new Map<string, number>()
  const plans = new Set<string>()
  const unsaved: unknown[] = []
  let saved: ReadonlySet<unknown> | undefined
  let saving = Promise.resolve()
  let queued = false

  const isOurs = (body: EntryBody, { plan_id }: BornEvent) =>
    body.run === ids.run || (plan_id !== undefined && plans.has(plan_id))

  function tell(graph: string, revision: number, body: EntryBody): void {
    seen.set(graph, revision)
    for (const born of eventsIn({ stream: graph, revision, body })) {
      if (!isOurs(body, born)) continue
      unsaved.push(born.event) // the caller may know it from a call that could not save it
      if (known.has(born.event.event_id)) continue
      known.add(born.event.event_id)
      ctx.events.push(born.event)
    }
    if (body.run === ids.run) ctx.coordination.metadata = Object.assign(ctx.coordination.metadata ?? {}, { revision })
  }

  /** One after the other, so that the caller's store sees the order too; what comes while one waits goes with it. */
  function save(): Promise<void> {
    if (!snapshots || queued) return saving
    queued = true
    const before = saving.catch(() => {
      saved = undefined // nobody knows what was taken of it: looked up, and the rest is given again
    })
    saving = before.then(async () => {
      queued = false
      saved ??= new Set((await snapshots.getEvents(runId)).map(idOf))
      const count = unsaved.length
      const fresh = unsaved.filter((event) => !saved?.has(idOf(event)))
      if (fresh.length > 0) await snapshots.appendEvents(runId, fresh)
      unsaved.splice(0, count)
    })
    saving.catch(() => undefined) // tried again with the next commit; `catchUp` throws it
    return saving
  }

  return {
    plans,
    follow: (graph, after) => void (seen.has(graph) || seen.set(graph, after)),
    take({ graph, revision, body }) {
      if (seen.get(graph) !== revision - 1) return
      tell(graph, revision, body)
      void save()
    },
    async catchUp() {
      for (const [graph, after] of [...seen])
        for await (const { revision, body } of store.read(graph, { after }))
          if (revision > seen.get(graph)!) tell(graph, revision, body as unknown as EntryBody)
      await save()
      await snapshots?.saveSnapshot(runId, ctx) // not with each commit: it holds everything, and would cost the square of the flow's length
    },
  }
}

const idOf = (event: unknown): unknown => Object(event).event_id

export const isSnapshotStore = (store: unknown): store is SnapshotStore =>
  (['saveSnapshot', 'appendEvents', 'getEvents'] as const).every((name) => typeof Object(store)[name] === 'function')
