import { deliveriesOf } from '../orchestrator/relay-feed.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { placeOf } from '../psg/node.ts'
import { isGraphs } from '../psg/told.ts'
import { entriesFrom, entriesNow, planMeant, wantedEvents } from '../server/wanted.ts'
import type { Backend, Entry } from '../vsl/backend.ts'
import { EXIT } from './io.ts'
import { aboutOf } from './run-events.ts'
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
    const names = new Map<string, string>()
    for await (const entry of entries) {
      if (!follow) io.signal.throwIfAborted()
      if (!io.json) nameSteps(entry, names)
      for (const delivery of deliveriesOf(entry)) {
        if (!isOfFamily(delivery) || !isOfPlan(delivery)) continue
        io.line(delivery, () => {
          const { timestamp, event_type, event_family } = delivery.event
          const family = event_family === undefined ? [] : [io.paint('dim', String(event_family))]
          return [io.paint('dim', timestamp), event_type, ...family, aboutOf(delivery.event, names) ?? []]
            .flat()
            .join(' ')
        })
      }
    }
    if (!follow) io.signal.throwIfAborted() // the feed just ends, and a part would be taken for all
    return EXIT.done
  })
}

/** Who follows may do so for months: a step that so many came after is told by its id. */
const MOST_NAMES = 100_000

/** Steps as people know them, from where the journal has them come to be; only the latest are kept. */
export function nameSteps({ body }: Entry, names: Map<string, string>, most = MOST_NAMES): void {
  if (!isGraphs(body)) return
  for (const change of body.changes) {
    const { kind, id } = placeOf(change.key)
    const { description } = ('now' in change ? change.now : change.after?.data) ?? {}
    if (kind === 'step' && typeof description === 'string') names.set(id, description)
    if (names.size > most) names.delete(names.keys().next().value as string)
  }
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
