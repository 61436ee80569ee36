import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Delivery } from '../bus/transport.ts'
import type { ComposedRuntime } from '../compose.ts'
import { paced } from '../orchestrator/reading-pace.ts'
import { deliveriesOf } from '../orchestrator/relay-feed.ts'
import { systemClock } from '../protocol/clock.ts'
import type { Report } from '../protocol/reporter.ts'
import { slept } from '../protocol/waiting.ts'
import { isGraphs } from '../psg/told.ts'
import type { Entry } from '../vsl/backend.ts'
import { goneOf } from './gone.ts'
import { problemOf } from './problem.ts'
import { choiceOf, type Route } from './route.ts'
import { entriesFrom, entriesNow, planMeant, wantedEvents } from './wanted.ts'

const HEARTBEAT_MS = 15_000
export const EVENT_STREAM = 'text/event-stream'

/**
 * The store's journal as server-sent events. The id is the place in the journal and comes with the last event of a commit: who was cut off within one
 * gets that commit again, and knows its events by their `event_id`.
 */
export function eventRoutes(
  { store, project }: ComposedRuntime,
  { signal: closing, onError }: { readonly signal: AbortSignal; readonly onError: Report },
): readonly Route[] {
  const tell = teller()
  return [
    {
      method: 'GET',
      path: '/events',
      says: 'Every event, oldest first, then live; goes on after the header Last-Event-ID. With an upgrade to WebSocket: from now on, or after what the first frame names.',
      role: 'read',
      query: {
        after: 'an id: only what came after it; the header wins',
        family: 'only these families, comma separated',
        plan: 'only this plan, by its id, its run’s or its trace’s; it may be yet to come unless follow is false',
        follow: '`false`: end with what is there now',
      },
      type: EVENT_STREAM,
      async handle({ query, headers, raw }, reply) {
        const gone = goneOf(raw, closing)
        const { signal } = gone
        const after = headers['last-event-id'] ?? query.after
        const from = typeof after === 'string' && after !== '' ? { after } : {}
        for await (const _ of paced(store.feed(from))) break // refuses a place it does not know while there is still a status to send
        const plan = await planMeant(project, query.plan)
        const wanted = wantedEvents(query.family, plan)
        const follow = choiceOf(query, 'follow', ['true', 'false'], 'query') !== 'false'
        const entriesOf = follow ? entriesFrom : entriesNow
        const entries = await entriesOf({ store, locate: project.locate }, plan, { ...from, signal })
        reply.hijack()
        const head = { 'content-type': EVENT_STREAM, 'cache-control': 'no-store', connection: 'close' }
        reply.raw.writeHead(200, head).flushHeaders()
        const beating = beat(reply.raw, signal)
        try {
          for await (const entry of paced(entries)) {
            const text = textOf(entry, tell(entry).filter(wanted))
            if (text !== '' && !reply.raw.write(text)) await once(reply.raw, 'drain', { signal })
          }
        } catch (error) {
          if (signal.aborted) return
          const problem = problemOf(error)
          if (problem.status === 500) onError(error) // of it a stranger learns next to nothing
          reply.raw.write(`event: error\ndata: ${JSON.stringify(problem)}\n\n`)
        } finally {
          gone.abort()
          await beating
          reply.raw.end()
        }
      },
    },
  ]
}

/** A delivery, and its text. */
interface Told extends Delivery {
  readonly text: string
}

/** What an entry tells. Those who follow want the same ones at about the same time: working one out takes longer than reading it. */
function teller(): (entry: Entry) => readonly Told[] {
  const known = new Map<string, readonly Told[]>()
  return (entry) => {
    if (!isGraphs(entry.body)) return []
    const key = `${entry.position} ${entry.body.commit_id}` // a store that was set back gives the same place to another
    const there = known.get(key)
    if (there) return there
    const told = deliveriesOf(entry).map((delivery) => ({ ...delivery, text: JSON.stringify(delivery) }))
    if (told.reduce((sum, { text }) => sum + text.length, 0) > MOST_CHARACTERS) return told
    if (known.size === MOST_KNOWN) known.delete(known.keys().next().value!)
    known.set(key, told)
    return told
  }
}
const MOST_KNOWN = 256
const MOST_CHARACTERS = 65_536

const textOf = ({ position }: Entry, told: readonly Told[]): string =>
  told
    .map(({ text }, i) => `${i === told.length - 1 ? `id: ${position}\n` : ''}event: mplp\ndata: ${text}\n\n`)
    .join('')

/** A comment now and then, so that nothing between us takes silence for death. */
async function beat(response: ServerResponse, signal: AbortSignal): Promise<void> {
  while (await slept(systemClock, HEARTBEAT_MS, signal)) {
    if (!response.writableNeedDrain) response.write(':\n\n') // for who does not read they would pile up
  }
}
