import { needed, refuseUnlessFit, signal, texts, time } from '../protocol/fields.ts'
import type { Digest, Json } from '../protocol/json.ts'
import { graphIn } from '../psg/index-rows.ts'
import { INDEX, idIn } from '../psg/indexes.ts'
import { isGraphs } from '../psg/told.ts'
import { checkScan } from '../vsl/check-input.ts'
import { checkSource } from '../vsl/check-options.ts'
import type { Source } from '../vsl/copy.ts'
import {
  busesIn,
  contextHasEnded,
  further,
  graphsAsking,
  type Signs,
  type ToldBus,
  untoldOf,
} from './ended-contexts.ts'
import { recordKey, wroteTo } from './flow-record.ts'
import { digestsIn, keptAside } from './named-blobs.ts'
import { positionKey } from './relay-position.ts'

export interface EndedBefore {
  /** ISO time; one that is still to come means everything that has ended. A context to which anybody has written since is not left out. */
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
  const { forget = [] } = options
  const forgotten = new Set(forget.map(positionKey))
  const { leftOut, behind } = await ended(store, options, await busesIn(store, forget))
  const runs = await runsIn(store, leftOut)
  const blobs = leftOut.size === 0 ? new Set<Digest>() : await blobsOnlyIn(store, leftOut, options.signal)

  const stays = (key: string, value: Json): boolean => {
    const first = key.slice(0, key.indexOf('/'))
    if (leftOut.has(first) || leftOut.has(graphIn(value) ?? '') || forgotten.has(key)) return false
    if (first === 'ended') return !runs.has(idIn(key))
    if (!key.startsWith(recordKey(''))) return true
    const graphs = wroteTo(value)
    return graphs.length === 0 || graphs.some((graph) => !leftOut.has(graph))
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

async function ended(
  store: Source,
  { before, signal }: EndedBefore,
  buses: readonly ToldBus[],
): Promise<Pick<WithoutEnded, 'leftOut' | 'behind'>> {
  const byGraph = new Map<string, Signs>()
  const others = new Set<string>() // streams with entries that are no graph's
  for await (const { stream, position, body } of store.feed()) {
    signal?.throwIfAborted()
    if (isGraphs(body)) byGraph.set(stream, further(byGraph.get(stream), body, position))
    else others.add(stream)
  }
  const asking = await graphsAsking(store)

  const leftOut = new Set<string>()
  const behind = new Set<string>()
  for (const [graph, signs] of byGraph) {
    if (asking.has(graph) || others.has(graph) || !(await contextHasEnded(store, graph, signs, before))) continue
    const untold = untoldOf(buses, signs)
    for (const name of untold) behind.add(name)
    if (untold.length === 0) leftOut.add(graph)
  }
  return { leftOut, behind }
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
  for await (const { stream, body } of store.feed()) {
    signal?.throwIfAborted()
    const by = graphs.has(stream) ? theirs : others
    for (const digest of digestsIn(body)) by.add(digest)
  }
  for await (const value of keptAside(store)) for (const digest of digestsIn(value)) others.add(digest)
  return new Set([...theirs].filter((digest) => !others.has(digest)))
}
