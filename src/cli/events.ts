import { deliveriesOf } from '../orchestrator/relay-feed.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { entriesFrom, entriesNow, planMeant, wantedEvents } from '../server/wanted.ts'
import type { Backend } from '../vsl/backend.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ options, io }: VerbCall): Promise<number> {
  const { family, plan: named, after } = options as { readonly [name: string]: string | undefined }
  const follow = options.follow === true
  const isOfFamily = wantedEvents(family, undefined) // refuses one that there is not, also where there is no store
  return withProject(io, async (project) => {
    const plan = await planMeant(project, named)
    const isOfPlan = wantedEvents(undefined, plan)
    const from = { signal: io.signal, ...(after !== undefined && { after }) }
    const entries = await (follow ? entriesFrom : entriesNow)(project, plan, from)
    if (after !== undefined) await refuseUnknown(project.store, after)
    for await (const entry of entries) {
      if (!follow) io.signal.throwIfAborted()
      for (const delivery of deliveriesOf(entry)) {
        if (!isOfFamily(delivery) || !isOfPlan(delivery)) continue
        const { event } = delivery
        io.line(
          delivery,
          () =>
            `${io.paint('dim', event.timestamp)} ${event.event_type}${event.event_family === undefined ? '' : io.paint('dim', ` ${String(event.event_family)}`)}`,
        )
      }
    }
    if (!follow) io.signal.throwIfAborted() // the feed just ends, and a part would be taken for all
    return EXIT.done
  })
}

/** What a position looks like, only the store knows; where to find one, we do. */
async function refuseUnknown(store: Backend, after: string): Promise<void> {
  try {
    for await (const _ of store.feed({ after })) return
  } catch (cause) {
    if (!(cause instanceof InvalidInput)) throw cause
    const message = 'is no position of this store; mplp events --json shows them'
    throw new InvalidInput('events', [{ path: '--after', rule: 'position', message, found: after }], { cause })
  }
}
