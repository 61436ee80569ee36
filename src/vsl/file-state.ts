import type { Clock } from '../protocol/clock.ts'
import type { Head, Lease } from './backend.ts'
import { type Checkpoint, linesOf } from './file-checkpoint.ts'
import type { StreamLines } from './file-entries.ts'
import type { Line } from './file-lines.ts'
import type { Objects } from './file-objects.ts'
import type { Held } from './holder.ts'

interface Stream extends StreamLines, Head {
  revision: number
  token: number
  /** The lines of its first and of its last entry; 0 when it has none. */
  first: number
  last: number
  recent: number[]
  before: number
  forgotten: number
  lease: (Held & { readonly ttlMs: number }) | undefined
}

/** A write that landed. Its values are texts when it was made here, and what the line says when it was read. */
interface Landed {
  readonly stream: string
  readonly expected: number
  readonly entry?: unknown
  readonly forget?: boolean
  readonly inserts: readonly (readonly [string, unknown])[]
  readonly puts: readonly (readonly [string, unknown])[]
  readonly deletes: readonly string[]
}

/** What the journal's lines add up to. */
export interface FileState {
  readonly streams: ReadonlyMap<string, Stream>
  headOf(stream: string): Head
  /** The stream that has the newest entry of all. */
  newest(): string | undefined
  /** A line that was read. */
  replay(line: Line): void
  /** A write that was just made. */
  land(seq: number, write: Landed & { readonly inserts: Texts; readonly puts: Texts }): void
  acquired(lease: Lease): void
  renewed(lease: Pick<Lease, 'stream' | 'holder' | 'ttlMs'>): void
  released(lease: Pick<Lease, 'stream'>): void
  isHeld(lease: Lease): boolean
  /** A new journal file begins: what stands in older ones is found by walking back. */
  forgetRecent(): void
  /** Of now: to be called when nothing is half done. */
  snapshot(): Pick<Checkpoint, 'streams' | 'values' | 'own'>
}
type Texts = readonly (readonly [key: string, text: string])[]

interface StateOptions {
  readonly values: Objects
  readonly own: Objects
  readonly known: Checkpoint['streams']
  readonly clock: Clock
  /** Told between which lines the entries stand that were just forgotten. */
  readonly onForgotten: (first: number, last: number) => void
}

export function fileState({ values, own, known, clock, onForgotten }: StateOptions): FileState {
  const streams = new Map<string, Stream>()
  let newest: string | undefined
  const streamOf = (name: string): Stream => {
    const stream = streams.get(name) ?? { ...NOTHING, recent: [], token: 0, forgotten: 0, lease: undefined }
    streams.set(name, stream)
    return stream
  }
  /** A renewal is not worth a line, so after opening every lease has its full time again. */
  const held = ({ holder, ttlMs }: Pick<Lease, 'holder' | 'ttlMs'>) => ({ holder, ttlMs, until: clock.now() + ttlMs })

  function advance(seq: number, { stream: name, expected, entry, forget, deletes }: Landed): void {
    for (const key of deletes) values.delete(key)
    const stream = streamOf(name)
    if (forget) {
      if (stream.first > 0) onForgotten(stream.first, stream.last)
      Object.assign(stream, { ...NOTHING, recent: [], forgotten: seq })
    }
    if (entry === undefined) return
    newest = name
    stream.revision = expected + 1
    if (stream.first === 0) stream.first = seq
    stream.last = seq
    stream.recent.push(seq)
  }
  const state: FileState = {
    streams,
    headOf(name) {
      const { revision, token } = streams.get(name) ?? { revision: 0, token: 0 }
      return { revision, token }
    },
    newest: () => newest,
    replay(line) {
      switch (line.kind) {
        case 'commit':
          for (const [key] of [...line.inserts, ...line.puts]) values.put(key, line.seq)
          return advance(line.seq, line)
        case 'set':
          return own.put(line.key, line.seq)
        case 'delete':
          return own.delete(line.key)
        case 'acquire':
          return state.acquired(line)
        case 'release':
          return state.released(line)
        default:
          line satisfies never
      }
    },
    land(seq, write) {
      for (const [key, text] of [...write.inserts, ...write.puts]) values.put(key, seq, text)
      advance(seq, write)
    },
    acquired(lease) {
      Object.assign(streamOf(lease.stream), { token: lease.token, lease: held(lease) })
    },
    renewed(lease) {
      streamOf(lease.stream).lease = held(lease)
    },
    released(lease) {
      streamOf(lease.stream).lease = undefined
    },
    isHeld(lease) {
      const stream = streams.get(lease.stream)
      return stream?.lease?.holder.id === lease.holder.id && stream.token === lease.token
    },
    forgetRecent() {
      for (const stream of streams.values()) Object.assign(stream, { recent: [], before: stream.last })
    },
    snapshot() {
      const all = [...streams].map(([name, { revision, token, first, last, forgotten, lease }]) => {
        const holding = lease && { holder: lease.holder, ttlMs: lease.ttlMs }
        return [name, { revision, token, first, last, forgotten, lease: holding }] as const
      })
      return { streams: all, values: linesOf(values.lines), own: linesOf(own.lines) }
    },
  }
  let newestLine = 0
  for (const [name, { lease, ...stream }] of known) {
    streams.set(name, { ...stream, recent: [], before: stream.last, lease: lease && held(lease) })
    if (stream.last <= newestLine) continue
    newest = name
    newestLine = stream.last
  }
  return state
}

/** What a stream has before its first entry. */
const NOTHING = { revision: 0, first: 0, last: 0, before: 0 }
