import { NotFound } from '../protocol/errors.ts'
import { needed, refuseUnlessFit, signal, texts, time } from '../protocol/fields.ts'
import { type Digest, isObject, type Json } from '../protocol/json.ts'
import type { EntryChange, Run, Stored } from '../psg/change.ts'
import { isFieldChange, takeOn } from '../psg/field-change.ts'
import { graphIn } from '../psg/index-rows.ts'
import { INDEX, type Whereabouts } from '../psg/indexes.ts'
import { KINDS } from '../psg/kinds.ts'
import { groupIn, placeOf } from '../psg/node.ts'
import { isGraphs } from '../psg/told.ts'
import { POSITIONS, type Position } from '../vsl/backend.ts'
import { checkScan } from '../vsl/check-input.ts'
import { checkSource } from '../vsl/check-options.ts'
import type { Source } from '../vsl/copy.ts'
import { recordKey } from './flow-record.ts'
import { positionKey } from './relay-history.ts'

export interface EndedBefore {
  /** ISO time. A context to which anybody has written since is not left out. */
  readonly before: string
  /** Buses that nobody tells any more: their positions are left out too, and no context stays on their account. */
  readonly forget?: readonly string[]
  readonly signal?: AbortSignal
}

/** A store without some of its contexts, for `copyStore` to read from. */
export interface WithoutEnded extends Source {
  readonly leftOut: ReadonlySet<string>
  /** Buses that have not been told everything of contexts which otherwise would be left out too. */
  readonly behind: ReadonlySet<string>
}

/**
 * A store as it would be if contexts that ended before a time had never been: their journals, values and index rows, the memory of their flows, and the
 * blobs that nothing else names. A context has ended when nothing in it is open (a plan, a session, a question), it is neither a draft nor
 * suspended, and it holds no files and no child of a run that goes on, which might submit it once more. Nobody may write to the store meanwhile. Throws
 * InvalidInput for a time that is none, NotFound for a bus to forget that has no position here.
 */
export async function withoutEnded(store: Source, options: EndedBefore): Promise<WithoutEnded> {
  checkSource({ store })
  refuseUnlessFit('ended before', options, { before: needed(time), forget: texts, signal })
  const forgotten = new Set(options.forget?.map(positionKey))
  const { leftOut, behind } = await ended(store, options, await busesIn(store, forgotten))
  const runs = await runsIn(store, leftOut)
  const blobs = leftOut.size === 0 ? new Set<Digest>() : await blobsOnlyIn(store, leftOut, options.signal)

  const stays = (key: string, value: Json): boolean => {
    const [first, last] = [key.slice(0, key.indexOf('/')), key.slice(key.lastIndexOf('/') + 1)]
    if (leftOut.has(first) || leftOut.has(graphIn(value) ?? '') || forgotten.has(key)) return false
    if (first === 'ended') return !runs.has(last)
    return !key.startsWith(recordKey('')) || !wroteTo(value).some((graph) => leftOut.has(graph))
  }
  return {
    leftOut,
    behind,
    async getMany(keys) {
      return new Map([...(await store.getMany(keys))].filter(([key, value]) => stays(key, value)))
    },
    async *scan(prefix, from = {}) {
      checkScan(prefix, from)
      let { limit: left = Number.POSITIVE_INFINITY, ...rest } = from
      for await (const [key, value] of store.scan(prefix, rest)) {
        if (left <= 0) return
        if (!from.own && !stays(key, value)) continue
        yield [key, value]
        left--
      }
    },
    async *feed(from) {
      for await (const entry of store.feed(from)) if (!leftOut.has(entry.stream)) yield entry
    },
    async *blobs() {
      for await (const digest of store.blobs()) if (!blobs.has(digest)) yield digest
    },
    getBlob: async (digest) => (blobs.has(digest) ? undefined : store.getBlob(digest)),
  }
}

/** What a context's journal says of it. */
interface Trail {
  at: string
  position: Position
  files: boolean
  readonly own: Map<string, Stored>
  /** The runs whose children are here. */
  readonly parents: Set<string>
}

type Bus = readonly [key: string, told: Position]

async function busesIn(store: Source, forgotten: ReadonlySet<string>): Promise<readonly Bus[]> {
  const buses: Bus[] = []
  for await (const [key, position] of store.scan(POSITIONS)) buses.push([key, position as Position])
  for (const key of forgotten)
    if (!buses.some(([known]) => known === key))
      throw new NotFound('bus', nameIn(key), `there are ${buses.map(([known]) => nameIn(known)).join(', ') || 'none'}`)
  return buses.filter(([key]) => !forgotten.has(key))
}
const nameIn = (key: string): string => key.slice(POSITIONS.length)

async function ended(
  store: Source,
  { before, signal }: EndedBefore,
  buses: readonly Bus[],
): Promise<Pick<WithoutEnded, 'leftOut' | 'behind'>> {
  const trails = new Map<string, Trail>()
  const others = new Set<string>() // streams with entries that are no graph's
  for await (const { stream, position, body } of store.feed()) {
    signal?.throwIfAborted()
    if (!isGraphs(body)) {
      others.add(stream)
      continue
    }
    const { at, changes } = body
    const trail = trails.get(stream) ?? { at, position, files: false, own: new Map(), parents: new Set() }
    trails.set(stream, Object.assign(trail, { at, position }))
    for (const change of changes) {
      if (groupIn(change.key) === KINDS.file.group) trail.files = true
      const { kind } = placeOf(change.key)
      if (kind === 'context') takeOn(trail.own, change)
      const parent = kind === 'run' ? parentIn(change) : undefined
      if (parent !== undefined) trail.parents.add(parent)
    }
  }
  const asking = new Set<string | undefined>()
  for await (const [, row] of store.scan(INDEX.waiting(''))) asking.add(graphIn(row))

  const leftOut = new Set<string>()
  const behind = new Set<string>()
  for (const [graph, { at, position, files, own, parents }] of trails) {
    const [context] = own.values()
    if (!context || UNENDED.has(context.data.status) || files || asking.has(graph) || others.has(graph)) continue
    if (Date.parse(at) >= Date.parse(before) || (await holdsOpen(store, graph)) || (await goesOn(store, parents)))
      continue
    const untold = buses.filter(([, told]) => told < position)
    for (const [key] of untold) behind.add(nameIn(key))
    if (untold.length === 0) leftOut.add(graph)
  }
  return { leftOut, behind }
}

/** What somebody may yet begin, or has stopped to go on with later. */
const UNENDED: ReadonlySet<unknown> = new Set(['draft', 'suspended'])

async function holdsOpen(store: Source, graph: string): Promise<boolean> {
  for await (const _ of store.scan(INDEX.open(graph, ''), { limit: 1 })) return true
  return false
}

/** The run whose child is born with a change, if one is. */
const parentIn = (change: EntryChange): string | undefined =>
  isFieldChange(change) ? undefined : (change.after?.data as Run | undefined)?.parent?.run_id

async function goesOn(store: Source, runs: ReadonlySet<string>): Promise<boolean> {
  if (runs.size === 0) return false
  const found = await store.getMany([...runs].map((run) => INDEX.id('run', run)))
  const places = [...found.values()].map((where) => where as Whereabouts)
  return (await store.getMany(places.map(({ graph, group }) => INDEX.open(graph, group)))).size > 0
}

/** In the list of ended runs each stands by its id alone. */
async function runsIn(store: Source, graphs: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const runs = new Set<string>()
  const prefix = INDEX.id('run', '')
  for await (const [key, row] of store.scan(prefix))
    if (graphs.has(graphIn(row) ?? '')) runs.add(key.slice(prefix.length))
  return runs
}

/** A blob stays as long as anything that stays so much as mentions it, and where nobody ever did. */
async function blobsOnlyIn(
  store: Source,
  graphs: ReadonlySet<string>,
  signal: AbortSignal | undefined,
): Promise<ReadonlySet<Digest>> {
  const [theirs, others] = [new Set<Digest>(), new Set<Digest>()]
  const mention = (value: Json, by: Set<Digest>) => {
    for (const [digest] of JSON.stringify(value).matchAll(DIGEST)) by.add(digest as Digest)
  }
  for await (const { stream, body } of store.feed()) {
    signal?.throwIfAborted()
    mention(body, graphs.has(stream) ? theirs : others)
  }
  for await (const [, value] of store.scan(recordKey(''))) mention(value, others)
  for await (const [, value] of store.scan('', { own: true })) mention(value, others)
  return new Set([...theirs].filter((digest) => !others.has(digest)))
}
const DIGEST = /sha256:[0-9a-f]{64}/g

/** The graphs that a flow has written to, by what is remembered of it. */
const wroteTo = (flow: Json): readonly string[] => (isObject(flow) && isObject(flow.from) ? Object.keys(flow.from) : [])
