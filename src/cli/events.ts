import type { BornEvent } from '../psg/change.ts'
import { eventsIn } from '../psg/told.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ options, io }: VerbCall): Promise<number> {
  const families = typeof options.family === 'string' ? options.family.split(',') : undefined
  const wanted = ({ event, plan_id }: BornEvent) =>
    (families === undefined || families.includes(String(event.event_family))) &&
    (options.plan === undefined || plan_id === options.plan)
  return withProject(io, async ({ store }) => {
    const from = {
      follow: options.follow === true,
      signal: io.signal,
      ...(typeof options.after === 'string' && { after: options.after }),
    }
    for await (const entry of store.feed(from)) {
      for (const born of eventsIn(entry)) {
        if (!wanted(born)) continue
        const { event } = born
        io.line(
          { position: entry.position, graph_id: entry.stream, revision: entry.revision, event },
          () =>
            `${io.paint('dim', event.timestamp)} ${event.event_type}${event.event_family === undefined ? '' : io.paint('dim', ` ${String(event.event_family)}`)}`,
        )
      }
    }
    return EXIT.done
  })
}
