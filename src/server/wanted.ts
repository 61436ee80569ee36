import type { Delivery } from '../bus/transport.ts'
import { InvalidInput, NotFound } from '../protocol/errors.ts'
import { FAMILIES } from '../protocol/families.ts'
import type { Project } from '../psg/project.ts'
import type { Backend, Entry, Position } from '../vsl/backend.ts'

/** The events of these families, comma separated, and of this plan; all when absent. Throws InvalidInput for a family that there is not. */
export function wantedEvents(family: string | undefined, plan: string | undefined): (delivery: Delivery) => boolean {
  const families = family?.split(',').map((name) => name.trim())
  const unknown = families?.find((name) => !FAMILIES.includes(name))
  if (unknown !== undefined)
    throw new InvalidInput('events', [
      { path: 'family', rule: 'enum', message: `is none of ${FAMILIES.join(', ')}`, found: unknown },
    ])
  return ({ event, plan_id }) =>
    (families === undefined || families.includes(String(event.event_family))) &&
    (plan === undefined || plan_id === plan)
}

/** The plan that is meant by its own id, its run's or its trace's. One that is not there may be yet to come, and is meant by its own. */
export async function planMeant(
  { locate }: Pick<Project, 'locate'>,
  id: string | undefined,
): Promise<string | undefined> {
  const where = id === undefined ? undefined : await locate(id, 'plan', 'run', 'trace')
  return where?.kind === 'run' || where?.kind === 'trace' ? where.group : id
}

/**
 * The entries that are there now, oldest first; of a plan only its context's, which tells all of its events. Throws NotFound for a plan that there is
 * not: who wants only what is there now would take no events for an answer.
 */
export async function entriesNow(
  { store, locate }: Pick<Project, 'store' | 'locate'>,
  plan: string | undefined,
  { after, signal }: { readonly after?: Position; readonly signal: AbortSignal },
): Promise<AsyncIterable<Entry>> {
  if (plan === undefined) return store.feed({ follow: false, signal, ...(after !== undefined && { after }) })
  const where = await locate(plan, 'plan')
  if (where?.kind !== 'plan') throw new NotFound('plan', plan)
  const from = after === undefined ? 0 : await shortlyBefore(store, where.graph, after)
  return behind(store.read(where.graph, { after: from, signal }), after)
}

/** A revision at the position or not far before it: who goes on from a place is seldom far from the end of what may be long. */
async function shortlyBefore(store: Backend, stream: string, place: Position): Promise<number> {
  let { revision } = await store.head(stream)
  for (let back = 16; revision > 0 && !(await isUpTo(store, stream, revision, place)); back *= 2)
    revision = Math.max(0, revision - back)
  return revision
}

async function isUpTo(store: Backend, stream: string, revision: number, place: Position): Promise<boolean> {
  for await (const { position } of store.read(stream, { after: revision - 1 })) return position <= place
  return false
}

/**
 * The entries that are there now, oldest first, then those that come. Of a plan that is there they begin with its context's first; one that is not may
 * be yet to come.
 */
export async function entriesFrom(
  { store, locate }: Pick<Project, 'store' | 'locate'>,
  plan: string | undefined,
  { after, signal }: { readonly after?: Position; readonly signal: AbortSignal },
): Promise<AsyncIterable<Entry>> {
  const feed = (from: Position | undefined) =>
    store.feed({ follow: true, signal, ...(from !== undefined && { after: from }) })
  const where = plan === undefined ? undefined : await locate(plan, 'plan')
  if (where?.kind !== 'plan') return feed(after)
  for await (const first of store.read(where.graph, { signal }))
    return after === undefined || first.position > after ? beginning(first, feed(first.position)) : feed(after)
  return feed(after)
}

async function* beginning(first: Entry, rest: AsyncIterable<Entry>): AsyncIterable<Entry> {
  yield first
  yield* rest
}

async function* behind(entries: AsyncIterable<Entry>, after: Position = ''): AsyncIterable<Entry> {
  for await (const entry of entries) if (entry.position > after) yield entry
}
