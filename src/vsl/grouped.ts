import {
  Closed,
  FencedOut,
  KeyExists,
  MplpError,
  OutcomeUnknown,
  Refused,
  RevisionConflict,
  Unavailable,
} from '../protocol/errors.ts'
import type { Write } from './backend.ts'
import { checkWrite, type WriteTexts } from './check-write.ts'

/** A write that was checked, its values already text: what a member sends as it is. */
export interface PreparedWrite extends WriteTexts {
  readonly stream: string
  readonly expected: number
  readonly fence: number | undefined
  readonly deletes: readonly string[]
  /** Then it is the only one of its batch. */
  readonly forget: boolean
}

/** What became of one write of a batch, with the numbers the store really holds. */
export type Verdict =
  | { readonly kind: 'landed' }
  | { readonly kind: 'fenced'; readonly token: number }
  | { readonly kind: 'conflict'; readonly actual: number }
  | { readonly kind: 'exists'; readonly key: string }
  | { readonly kind: 'newest' }

/** Nothing was written, and nothing stands in the way any more: the write is sent once more. */
export interface Again {
  readonly kind: 'again'
}

/** A store that can take several writes in one statement, script or fsync. */
export interface BatchMember {
  /**
   * One verdict per write, in order; a write that is refused leaves the others alone. No stream and no key occurs twice in what is in flight.
   * Rejects with Unavailable when certain that nothing was written; with any other MplpError (but
   * OutcomeUnknown) when nothing was written because one of the writes is impossible; every other rejection is taken for a lost reply.
   */
  commitBatch(writes: readonly PreparedWrite[]): Promise<readonly (Verdict | Again)[]>
}

export interface GroupedOptions {
  /** The store in error messages: "the postgres store". */
  readonly what: string
  readonly maxWrites?: number
  /** Bound on the text of a batch; a single write above it travels alone. */
  readonly maxBytes?: number
  /** How many batches may be in flight: 1 when absent. With two, what arrives while one is on its way need not wait for its return. */
  readonly lanes?: number
  /** Told the streams that have come to a new entry. */
  readonly tell?: (streams: readonly string[]) => void
}

/** The `commit` of a Backend and the waiting half of its `close`. */
export interface Grouped {
  commit(write: Write): Promise<void>
  /** Refuses what comes from now on, waits for what is in hand. */
  close(): Promise<void>
}

/** How often a write is sent that the member neither takes nor refuses. */
const TRIES = 20

interface Waiting {
  readonly write: PreparedWrite
  tries: number
  readonly settle: (refusal: MplpError | undefined) => void
}

/**
 * Commits that wait together travel together: what arrives while every lane has a batch in flight forms the next. Nothing waits for a timer. Writes
 * that share a stream or a key travel one after another, in the order they came, each after the acknowledgement of the one before.
 */
export function grouped(member: BatchMember, options: GroupedOptions): Grouped {
  const maxWrites = options.maxWrites ?? 128
  const maxBytes = options.maxBytes ?? 8 * 1024 * 1024
  const running: (Promise<void> | undefined)[] = Array(options.lanes ?? 1).fill(undefined)
  const inFlight = new Set<readonly Waiting[]>()
  let waiting: Waiting[] = []
  /** The stream of the last batch, if it was of one write. */
  let lone: string | undefined
  let closed = false

  async function run(lane: number): Promise<void> {
    while (waiting.length > 0) {
      // Those whose commit was just acknowledged may have the next one ready: let it join. Whoever was alone before is not kept waiting for a crowd.
      await settled(waiting.length === 1 && waiting[0]!.write.stream === lone)
      const { batch, rest } = takeBatch(waiting, inFlight, maxWrites, maxBytes)
      if (batch.length === 0) break // all of it waits for what another lane has in flight
      waiting = rest
      lone = batch.length === 1 ? batch[0]!.write.stream : undefined
      inFlight.add(batch)
      if (waiting.length > 0) useIdleLane()
      const again = await send(member, batch, options.tell)
      inFlight.delete(batch)
      for (const { settle } of again.filter(({ tries }) => tries >= TRIES))
        settle(new Unavailable(options.what, 'too many others write there; try again later'))
      waiting = [...again.filter(({ tries }) => tries < TRIES), ...waiting]
    }
    running[lane] = undefined
  }
  function useIdleLane(): void {
    const idle = running.indexOf(undefined)
    if (idle >= 0) running[idle] = run(idle)
  }

  return {
    async commit(write) {
      if (closed) throw new Closed(options.what)
      const prepared = prepare(write)
      const refusal = await new Promise<MplpError | undefined>((settle) => {
        waiting.push({ write: prepared, tries: 0, settle })
        useIdleLane()
      })
      if (refusal) throw refusal
    },
    async close() {
      closed = true
      while (running.some((lane) => lane !== undefined)) await Promise.all(running) // one may start another
    },
  }
}

/** After everybody who can go on has gone on; unless in haste, those too who gave others a turn. */
const settled = (inHaste: boolean) =>
  new Promise<void>((resolve) => (inHaste ? process.nextTick(resolve) : setImmediate(resolve)))

function prepare(write: Write): PreparedWrite {
  const { entry, inserts, puts } = checkWrite(write)
  const { stream, expected, fence, forget = false } = write
  return { stream, expected, fence, entry, inserts, puts, deletes: [...write.deletes], forget }
}

function takeBatch(
  waiting: Waiting[],
  inFlight: ReadonlySet<readonly Waiting[]>,
  maxWrites: number,
  maxBytes: number,
): { readonly batch: readonly Waiting[]; readonly rest: Waiting[] } {
  if (waiting.length === 1 && inFlight.size === 0) return { batch: waiting, rest: [] }
  const batch: Waiting[] = []
  const left: Waiting[] = []
  const streams = new Set<string>()
  const keys = new Set<string>()
  for (const { write } of [...inFlight].flat()) claim(streams, keys, write)
  let size = 0
  for (const [i, next] of waiting.entries()) {
    // However long a stream's queue is, no more of it is looked at than could travel.
    if (Math.max(batch.length, left.length) === maxWrites) return { batch, rest: left.concat(waiting.slice(i)) }
    // Those left behind claim their stream and keys too, or a later write would overtake them.
    const isFree = claim(streams, keys, next.write)
    const itsSize = sizeOf(next.write)
    const isAlone = next.write.forget || batch[0]?.write.forget
    if (isFree && (batch.length === 0 || (!isAlone && size + itsSize <= maxBytes))) {
      batch.push(next)
      size += itsSize
    } else left.push(next)
  }
  return { batch, rest: left }
}

/** False if somebody has claimed its stream or one of its keys before. */
function claim(streams: Set<string>, keys: Set<string>, { stream, inserts, puts, deletes }: PreparedWrite): boolean {
  const before = streams.size + keys.size
  streams.add(stream)
  for (const [key] of inserts) keys.add(key)
  for (const [key] of puts) keys.add(key)
  for (const key of deletes) keys.add(key)
  return streams.size + keys.size === before + 1 + inserts.length + puts.length + deletes.length
}

function sizeOf({ entry, inserts, puts }: PreparedWrite): number {
  let size = entry?.length ?? 0
  for (const [key, text] of inserts) size += key.length + text.length
  for (const [key, text] of puts) size += key.length + text.length
  return size
}

/** Settles them, all but those that are to be sent again. */
async function send(
  member: BatchMember,
  batch: readonly Waiting[],
  tell: GroupedOptions['tell'],
): Promise<readonly Waiting[]> {
  for (const each of batch) each.tries++
  try {
    const verdicts = await member.commitBatch(batch.map(({ write }) => write))
    tell?.(newsIn(batch, verdicts))
    const again = batch.filter((_, i) => verdicts[i]?.kind === 'again')
    for (const [i, { write, settle }] of batch.entries()) {
      const verdict = verdicts[i]
      if (verdict?.kind !== 'again') settle(refusalOf(write, verdict))
    }
    return again
  } catch (error) {
    const certain = error instanceof MplpError && !(error instanceof OutcomeUnknown)
    if (certain && !(error instanceof Unavailable) && batch.length > 1) return sendEach(member, batch, tell)
    for (const { write, settle } of batch) settle(certain ? error : new OutcomeUnknown(write.stream, { cause: error }))
    return []
  }
}

const newsIn = (batch: readonly Waiting[], verdicts: readonly (Verdict | Again)[]): readonly string[] =>
  batch
    .filter(({ write }, i) => write.entry !== undefined && verdicts[i]?.kind === 'landed')
    .map(({ write }) => write.stream)

/** One impossible write must not take the others down: alone, each gets an answer of its own. */
async function sendEach(
  member: BatchMember,
  batch: readonly Waiting[],
  tell: GroupedOptions['tell'],
): Promise<Waiting[]> {
  const again: Waiting[] = []
  for (const one of batch) again.push(...(await send(member, [one], tell)))
  return again
}

/** What `commit` throws for a verdict; nothing for a write that landed. */
export function refusalOf(
  write: Pick<PreparedWrite, 'stream' | 'expected' | 'fence'>,
  verdict: Verdict | undefined,
): MplpError | undefined {
  switch (verdict?.kind) {
    case 'landed':
      return undefined
    case 'fenced':
      return new FencedOut(write.stream, write.fence ?? 0, verdict.token)
    case 'conflict':
      return new RevisionConflict(write.stream, write.expected, verdict.actual)
    case 'exists':
      return new KeyExists(verdict.key)
    case 'newest':
      return new Refused(
        `${write.stream} has the newest entry of the store`,
        'forget it once another stream has a newer one',
      )
    default:
      verdict satisfies undefined
      return new OutcomeUnknown(write.stream, { cause: new Error('the store gave no verdict on it') })
  }
}
