import { setImmediate as nextTurn } from 'node:timers/promises'
import { append } from '../protocol/append.ts'
import { type Clock, isoNow, systemClock } from '../protocol/clock.ts'
import { inParts } from '../protocol/each.ts'
import { Corrupt, FencedOut, Refused, RevisionConflict } from '../protocol/errors.ts'
import { clock as clockField, flag, method, needed, refuseUnlessFit, signal, texts, time } from '../protocol/fields.ts'
import type { Digest, Json } from '../protocol/json.ts'
import type { Stored } from '../psg/change.ts'
import { takeOn } from '../psg/field-change.ts'
import { graphIn } from '../psg/index-rows.ts'
import { INDEX, idIn } from '../psg/indexes.ts'
import { keysOfGraph } from '../psg/keys-of-graph.ts'
import { isGraphs } from '../psg/told.ts'
import { trimmedKey } from '../psg/trimmed.ts'
import type { Backend, Puts } from '../vsl/backend.ts'
import { checkStores } from '../vsl/check-options.ts'
import { busesIn, contextHasEnded, further, holdsOpen, isAsking, type Signs, untoldOf } from './ended-contexts.ts'
import { recordKey, wroteTo } from './flow-record.ts'
import { digestsIn } from './named-blobs.ts'
import { paced } from './reading-pace.ts'
import { positionKey } from './relay-position.ts'
import { dueBlobs, sweepBlobs, takeOut } from './trim-blobs.ts'
import type { EndedBefore } from './without-ended.ts'

export interface TrimOptions extends EndedBefore {
  /** Only looks, and answers with what would be taken away. */
  readonly dryRun?: boolean
  /** Also told how many contexts have been looked at. */
  readonly onProgress?: (soFar: Trimmed, looked: number) => void
  readonly clock?: Clock
}

export interface Trimmed {
  /** The contexts that were taken away. */
  readonly contexts: readonly string[]
  /** Buses that have not been told everything of contexts which otherwise would have been taken away too. */
  readonly behind: readonly string[]
  /** Contexts that stay because their journal cannot be read: `mplp store verify` says more. */
  readonly unreadable: readonly string[]
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
  const candidates = await endedRunsIn(store, options)
  const flows = await flowsOf(store, candidates, options)
  const [contexts, behind, unreadable]: [string[], Set<string>, string[]] = [[], new Set(), []]
  const soFar = (blobs = 0): Trimmed => ({
    contexts: [...contexts],
    behind: [...behind],
    unreadable: [...unreadable],
    blobs,
  })

  let looked = 0

  if (!dryRun) await takeOut(store, forget.map(positionKey))
  for (const some of inParts([...candidates], AT_ONCE)) {
    const due: Doomed[] = []
    for (const graph of some) {
      options.signal?.throwIfAborted()
      const found = await lookAt(store, graph, before).catch(unlessUnreadable)
      if (found === UNREADABLE) unreadable.push(graph)
      if (!found || found === UNREADABLE || !(await contextHasEnded(store, graph, found.signs, before))) continue
      const untold = untoldOf(buses, found.signs)
      for (const name of untold) behind.add(name)
      if (untold.length === 0) due.push({ ...found, graph, flows: flows.get(graph) ?? [] })
    }
    if (dryRun) contexts.push(...due.map(({ graph }) => graph))
    else for await (const gone of takeAway(store, due, clock, options)) contexts.push(gone)
    looked += some.length
    onProgress?.(soFar(), looked)
  }
  return soFar(dryRun ? 0 : await sweepBlobs(store, clock, options.signal))
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

const UNREADABLE = 'unreadable'
function unlessUnreadable(error: unknown): typeof UNREADABLE {
  if (error instanceof Corrupt || error instanceof Refused) return UNREADABLE
  throw error
}

/** A context as it was looked at. */
interface Found {
  readonly revision: number
  /** From before it was looked at: whoever runs something in it has another since. */
  readonly token: number
  readonly signs: Signs
  readonly stored: ReadonlyMap<string, Stored>
  readonly blobs: readonly Digest[]
}

interface Doomed extends Found {
  readonly graph: string
  readonly flows: readonly FlowKept[]
}

/** A flow that is remembered, and where else it wrote to. */
interface FlowKept {
  readonly key: string
  readonly others: readonly string[]
}

/** The contexts of runs that ended before a time, as the list of ended runs tells them. */
async function endedRunsIn(store: Backend, { before, signal }: TrimOptions): Promise<ReadonlySet<string>> {
  const rows: string[] = []
  for await (const [key] of store.scan('ended/', { after: INDEX.ended(before, '') })) {
    signal?.throwIfAborted()
    rows.push(INDEX.id('run', idIn(key)))
  }
  const graphs = new Set<string>()
  for (const some of inParts(rows, ROWS))
    for (const where of (await store.getMany(some)).values()) graphs.add(graphIn(where) ?? '')
  graphs.delete('')
  return graphs
}
const ROWS = 1000

/** The flows that are remembered and wrote to one of these graphs, by graph. */
async function flowsOf(
  store: Backend,
  graphs: ReadonlySet<string>,
  { signal }: TrimOptions,
): Promise<ReadonlyMap<string, readonly FlowKept[]>> {
  const flows = new Map<string, FlowKept[]>()
  if (graphs.size === 0) return flows
  for await (const [key, memory] of store.scan(recordKey(''))) {
    signal?.throwIfAborted()
    const wrote = wroteTo(memory)
    for (const graph of wrote)
      if (graphs.has(graph)) append(flows, graph, { key, others: wrote.filter((other) => other !== graph) })
  }
  return flows
}

/** Nothing for what has not ended at a glance, asks somebody, or is not a graph's alone. */
async function lookAt(store: Backend, graph: string, before: string): Promise<Found | undefined> {
  const { revision, token } = await store.head(graph)
  if (revision === 0 || (await holdsOpen(store, graph))) return undefined // another may have been faster
  for await (const { body } of store.read(graph, { after: revision - 1 }))
    if (isGraphs(body) && Date.parse(body.at) >= Date.parse(before)) return undefined
  let signs: Signs | undefined
  let last = 0
  const stored = new Map<string, Stored>()
  const blobs = new Set<Digest>()
  for await (const { revision: at, position, body } of paced(store.read(graph))) {
    if (!isGraphs(body)) return undefined
    signs = further(signs, body, position)
    last = at
    for (const change of body.changes) takeOn(stored, change)
    for (const digest of digestsIn(body as unknown as Json)) blobs.add(digest)
  }
  return signs && !isAsking(stored) ? { revision: last, token, signs, stored, blobs: [...blobs] } : undefined
}

/** Those that go. The journal tells of them first, so that none of them has the newest entry. */
async function* takeAway(
  store: Backend,
  due: readonly Doomed[],
  clock: Clock,
  { before, signal }: TrimOptions,
): AsyncIterable<string> {
  if (due.length === 0) return
  const at = isoNow(clock)
  await tellOf({ trimmed: due.map(({ graph }) => graph), before, at }, store)
  for (const { graph, token, revision, stored, flows, blobs } of due) {
    await nextTurn() // there may be many, and a store may answer at once
    signal?.throwIfAborted()
    const deletes = [...(await keysOfGraph(store, graph, stored)), ...(await forgottenWith(store, flows))]
    const puts: Puts = [[trimmedKey(graph), { at }], ...(blobs.length > 0 ? [dueBlobs(graph, blobs, clock)] : [])]
    try {
      await store.commit({ stream: graph, expected: revision, fence: token, forget: true, inserts: [], puts, deletes })
    } catch (error) {
      if (error instanceof RevisionConflict || error instanceof FencedOut) continue // somebody has written to it, or was faster
      throw error
    }
    yield graph
  }
}

/** A flow is remembered as long as one of the graphs is there that it wrote to. */
async function forgottenWith(store: Backend, flows: readonly FlowKept[]): Promise<readonly string[]> {
  const keys: string[] = []
  for (const { key, others } of flows) {
    const heads = await Promise.all(others.map((other) => store.head(other)))
    if (heads.every(({ revision }) => revision === 0)) keys.push(key)
  }
  return keys
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
