import { setImmediate as nextTurn } from 'node:timers/promises'
import { append } from '../protocol/append.ts'
import { type Clock, isoNow, systemClock } from '../protocol/clock.ts'
import { inParts } from '../protocol/each.ts'
import { RevisionConflict } from '../protocol/errors.ts'
import { clock as clockField, flag, method, needed, refuseUnlessFit, signal, texts, time } from '../protocol/fields.ts'
import type { Digest, Json } from '../protocol/json.ts'
import type { Stored } from '../psg/change.ts'
import { takeOn } from '../psg/field-change.ts'
import { graphIn } from '../psg/index-rows.ts'
import { INDEX } from '../psg/indexes.ts'
import { isGraphs } from '../psg/told.ts'
import { keysOfGraph, trimmedKey } from '../psg/trimmed.ts'
import type { Backend, Puts } from '../vsl/backend.ts'
import { checkStores } from '../vsl/check-options.ts'
import { busesIn, further, graphsAsking, hasEnded, type Past, untoldOf } from './ended-contexts.ts'
import { recordKey, wroteTo } from './flow-record.ts'
import { digestsIn } from './named-blobs.ts'
import { paced } from './reading-pace.ts'
import { positionKey } from './relay-history.ts'
import { dueKey, sweepBlobs, takeOut } from './trim-blobs.ts'
import type { EndedBefore } from './without-ended.ts'

export interface TrimOptions extends EndedBefore {
  /** Only looks, and answers with what would be taken away. */
  readonly dryRun?: boolean
  readonly onProgress?: (soFar: Trimmed) => void
  readonly clock?: Clock
}

export interface Trimmed {
  /** The contexts that were taken away. */
  readonly contexts: readonly string[]
  /** Buses that have not been told everything of contexts which otherwise would have been taken away too. */
  readonly behind: readonly string[]
  /** How many blobs went with them. */
  readonly blobs: number
}

/**
 * Takes contexts away that ended before a time, out of a store that is in use: their journals, values and index rows, the memory of their flows, and the
 * blobs that nothing else names. What counts as ended is told by `withoutEnded`; contexts in which nothing ran stay. Each goes whole or not at all, and
 * only as it was looked at: whoever writes to one meanwhile keeps it. May be called again at any time, also after it was cut off, and by several
 * processes. Throws InvalidInput for a time that is none, NotFound for a bus to forget that has no position here.
 */
export async function trim(store: Backend, options: TrimOptions): Promise<Trimmed> {
  checkStores({ store })
  refuseUnlessFit('trim', options, OPTIONS)
  const { before, forget = [], dryRun = false, clock = systemClock, onProgress } = options
  const buses = await busesIn(store, forget)
  const asking = await graphsAsking(store)
  const candidates = await endedRunsIn(store, before)
  const flows = await flowsOf(store, candidates)
  const contexts: string[] = []
  const behind = new Set<string>()
  const soFar = (blobs = 0): Trimmed => ({ contexts: [...contexts], behind: [...behind], blobs })

  if (!dryRun && forget.length > 0) await takeOut(store, forget.map(positionKey))
  for (const some of inParts([...candidates], AT_ONCE)) {
    const due: Doomed[] = []
    for (const graph of some) {
      options.signal?.throwIfAborted()
      const found = asking.has(graph) ? undefined : await lookAt(store, graph)
      if (!found || !(await hasEnded(store, graph, found.past, before))) continue
      const untold = untoldOf(buses, found.past)
      for (const name of untold) behind.add(name)
      if (untold.length === 0) due.push({ ...found, graph, flows: flows.get(graph) ?? [] })
    }
    if (dryRun) contexts.push(...due.map(({ graph }) => graph))
    else contexts.push(...(await takeAway(store, due, before, clock)))
    onProgress?.(soFar())
  }
  return soFar(dryRun ? 0 : await sweepBlobs(store, options.signal))
}

const OPTIONS = {
  before: needed(time),
  forget: texts,
  signal,
  dryRun: flag,
  onProgress: method,
  clock: clockField,
}

/** So many contexts are looked at before they go, and told of in one entry. */
const AT_ONCE = 100

/** A context as it was looked at. */
interface Found {
  readonly revision: number
  readonly past: Past
  readonly stored: ReadonlyMap<string, Stored>
  readonly blobs: readonly Digest[]
}

interface Doomed extends Found {
  readonly graph: string
  /** The keys under which its flows are remembered. */
  readonly flows: readonly string[]
}

/** The contexts of runs that ended before a time, as the list of ended runs tells them. */
async function endedRunsIn(store: Backend, before: string): Promise<ReadonlySet<string>> {
  const rows: string[] = []
  for await (const [key] of store.scan('ended/', { after: INDEX.ended(before, '') }))
    rows.push(INDEX.id('run', key.slice(key.lastIndexOf('/') + 1)))
  const graphs = new Set<string>()
  for (const some of inParts(rows, ROWS))
    for (const where of (await store.getMany(some)).values()) graphs.add(graphIn(where) ?? '')
  graphs.delete('')
  return graphs
}
const ROWS = 1000

/** The keys under which flows are remembered that wrote to one of these graphs. */
async function flowsOf(store: Backend, graphs: ReadonlySet<string>): Promise<ReadonlyMap<string, readonly string[]>> {
  const keys = new Map<string, string[]>()
  if (graphs.size === 0) return keys
  for await (const [key, memory] of store.scan(recordKey('')))
    for (const graph of wroteTo(memory)) if (graphs.has(graph)) append(keys, graph, key)
  return keys
}

/** Nothing for a stream that is not a graph's alone. */
async function lookAt(store: Backend, graph: string): Promise<Found | undefined> {
  let past: Past | undefined
  let last = 0
  const stored = new Map<string, Stored>()
  const blobs = new Set<Digest>()
  for await (const { revision, position, body } of paced(store.read(graph))) {
    if (!isGraphs(body)) return undefined
    past = further(past, body, position)
    last = revision
    for (const change of body.changes) takeOn(stored, change)
    for (const digest of digestsIn(body as unknown as Json)) blobs.add(digest)
  }
  return past && { revision: last, past, stored, blobs: [...blobs] }
}

/** Those that went. The journal tells of them first, so that none of them has the newest entry. */
async function takeAway(
  store: Backend,
  due: readonly Doomed[],
  before: string,
  clock: Clock,
): Promise<readonly string[]> {
  if (due.length === 0) return []
  const at = isoNow(clock)
  await tellOf({ trimmed: due.map(({ graph }) => graph), before, at }, store)
  const gone: string[] = []
  for (const { graph, revision, stored, flows, blobs } of due) {
    await nextTurn() // there may be many, and a store may answer at once
    const deletes = [...(await keysOfGraph(store, graph, stored)), ...flows]
    const puts: Puts = [[trimmedKey(graph), { at }], ...(blobs.length > 0 ? [[dueKey(graph), blobs] as const] : [])]
    try {
      await store.commit({ stream: graph, expected: revision, forget: true, inserts: [], puts, deletes })
      gone.push(graph)
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error // somebody has written to it, or was faster
    }
  }
  return gone
}

async function tellOf(entry: Json, store: Backend): Promise<void> {
  for (;;) {
    const { revision: expected } = await store.head(TRIM)
    try {
      return await store.commit({ stream: TRIM, expected, entry, inserts: [], puts: [], deletes: [] })
    } catch (error) {
      if (!(error instanceof RevisionConflict)) throw error // another trims too
    }
  }
}
const TRIM = 'trim'
