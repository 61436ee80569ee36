import type { Digest, Json } from '../protocol/json.ts'

/** What the protocol asks of a store. Any object with these two is accepted wherever a backend is (see lifted.ts). */
export interface ValueStateLayer {
  /** `undefined` when nothing is there. */
  get(key: string): Promise<Json | undefined>
  set(key: string, value: Json): Promise<void>
}

/**
 * Where values and journals live. Knows nothing of the protocol; stores what it is given, unchanged, down to the order of an object's keys.
 * Every value handed out is a copy. Keys and stream names are any well-formed, non-empty text of at most 1,024 bytes without U+0000; what does not
 * fit is refused with InvalidInput, what is larger than a store may be asked to take with TooLarge. After `close`, every call throws Closed.
 * Calls may fail with Unavailable (nothing was written); only `commit`, `set` and `delete` may fail with OutcomeUnknown. Every call settles: a store bounds
 * what it waits for itself, or who called waits for ever; only a runtime's close goes on without it.
 */
export interface Backend extends ValueStateLayer {
  /** The caller's own keys: `get`, `set` and `delete` never reach a graph's values, nor `commit`, `getMany` and `scan` the caller's. */
  get(key: string): Promise<Json | undefined>
  set(key: string, value: Json): Promise<void>
  /** Afterwards nothing is there; whether anything was is all one. */
  delete(key: string): Promise<void>

  /**
   * All of it or nothing. Throws FencedOut if `fence` is given and is not the stream's token, RevisionConflict unless the stream is at `expected`,
   * KeyExists if an insert meets a key (asked in this order), Refused for a stream that may not be forgotten, TooLarge: then nothing was written. Throws
   * OutcomeUnknown when the reply was lost.
   * Returns when the write is as durable as `traits` say.
   */
  commit(write: Write): Promise<void>
  /** The values that exist among these keys. */
  getMany(keys: readonly string[]): Promise<Map<string, Json>>
  /** Key order is that of UTF-8 bytes, after `after` if given. Not a snapshot: what is committed meanwhile may be seen or not; nothing is seen twice. */
  scan(prefix: string, from?: ScanFrom): AsyncIterable<readonly [string, Json]>

  /** A stream that was never written is at revision 0, token 0. */
  head(stream: string): Promise<Head>
  /** Entries above `after`, oldest first, without gaps. Following ends, without an error, when the signal is aborted. */
  read(stream: string, from?: { after?: number; follow?: boolean; signal?: AbortSignal }): AsyncIterable<Entry>
  /**
   * Entries of every stream after a position, each stream in revision order; never later shows an entry before a position it has passed. Throws
   * InvalidInput for a position that is not of its making or that it has not come to; also while it is followed, when the store was set back to before it
   * and could not show what now stands there.
   */
  feed(from?: { after?: Position; follow?: boolean; signal?: AbortSignal }): AsyncIterable<Entry>

  /**
   * Makes `holder` the owner and raises the stream's token, in the record that `commit` compares; where an older copy may be put in
   * the store's place under living processes, as by a failover, not by one but to the time by its clock, so that no token is given out twice.
   * `undefined` while another holder's lease has time left by the store's clock and its process lives. Acquiring again as the same holder is a
   * takeover from oneself: a new token.
   */
  acquire(stream: string, holder: Holder, ttlMs: number): Promise<Acquired | undefined>
  /** Gives the lease its full time again; false once somebody else has acquired or it was released. */
  renew(lease: Lease): Promise<boolean>
  /** Ends the lease at once if it is still ours. The token stays, so a fence given earlier stays good until the next acquire. */
  release(lease: Lease): Promise<void>

  /** Stored under its sha256, once. Durable when this returns, so write it before the commit that names it. */
  putBlob(bytes: Uint8Array): Promise<Digest>
  getBlob(digest: Digest): Promise<Uint8Array | undefined>
  /** Every blob's digest, in no order. */
  blobs(): AsyncIterable<Digest>
  /**
   * Takes away those of these blobs that nobody has put for `unputMs` by the store's clock, and answers with them; what is not there is passed over.
   * So whoever has put one has this long for the commit that names it, also if it was there before.
   */
  forgetBlobs(digests: readonly Digest[], unputMs: number): Promise<readonly Digest[]>

  readonly traits: Traits
  /**
   * What the store says of itself to those who look after it; absent where it has nothing to say. Throws Refused for one that was brought to another
   * layout, or, where it can tell, replaced since it was opened.
   */
  facts?(): Promise<Facts>
  /** Safe to call twice; waits for commits in hand; ends followers, while other reads that are not at their end throw Closed. */
  close(): Promise<void>
}

export interface Traits {
  /** What was acknowledged survives the death of the process and of the machine's power. */
  readonly durable: boolean
  /** May several processes open the same store at once? */
  readonly processes: 'one' | 'many'
  /** Do commits of different streams that wait together travel together? */
  readonly grouped: boolean
  /** Are its values there for people to read? Then a graph writes them with every commit and leaves none to the journal. */
  readonly legible?: boolean
}

export interface Facts {
  /** The version of its tables or keys: the one that this program writes, or it would have been refused. */
  readonly layout: number
  /** How much room it takes, about; absent where it does not say. */
  readonly bytes?: number
  /** Its own clock, by which leases run, in milliseconds since 1970; absent where that is ours. */
  readonly now?: number
}

/**
 * One change of the store. With `entry` the stream's revision grows by one and the feed shows it; without, conditions and fence still hold and
 * revision and feed stay as they were. The three key sets are disjoint.
 */
export interface Write {
  /** Entry and values are known to be JSON, and nobody changes them any more: they need no looking through. */
  readonly checked?: true
  readonly stream: string
  readonly expected: number
  readonly fence?: number
  readonly entry?: Json
  /**
   * In place of an entry: those that the stream has are taken away, and it is at revision 0; its token and lease stay as they are. The feed passes over them
   * from then on, and whoever had come to one of them goes on behind it; who reads the stream at that moment may see some of them only. Refused for the
   * stream that has the newest entry of all, by which a position ahead of the store is known.
   */
  readonly forget?: true
  /** Keys that must not exist yet. */
  readonly inserts: Puts
  readonly puts: Puts
  readonly deletes: readonly string[]
}
export type Puts = readonly (readonly [key: string, value: Json])[]

export interface Head {
  readonly revision: number
  readonly token: number
}

/** Opaque to everyone but the store that made it; as text, later ones sort after earlier ones. */
export type Position = string

export interface Entry {
  readonly stream: string
  readonly revision: number
  readonly position: Position
  readonly body: Json
}

export interface ScanFrom {
  readonly after?: string
  readonly limit?: number
  /** The caller's own keys instead of the graphs' values. */
  readonly own?: boolean
  /** Of an encrypted store: told the key that was not given, for each value which only that one opens, and which is then passed over. Else that is thrown. */
  readonly passOver?: (key: string) => void
}

/** Who holds a lease, told so that a contender on the same machine can see whether that process still lives. */
export interface Holder {
  /** Unique per runtime instance. */
  readonly id: string
  /** The machine's boot and the space in which its pids mean something: processes that see each other have the same. */
  readonly boot: string
  readonly pid: number
  /** When that process started, as the machine tells it: a pid alone may have been given to somebody else since. */
  readonly started: string
}

export interface Lease {
  readonly stream: string
  readonly holder: Holder
  /** The fence to commit under. */
  readonly token: number
  readonly ttlMs: number
}

export interface Acquired extends Lease {
  /** Of the stream at that moment: whoever stands there has nothing to catch up with. */
  readonly revision: number
}

/**
 * Values under this prefix hold a Position of this very store (a bus's cursor), or empty text before the first. Positions mean nothing in another store,
 * so `copyStore` translates them.
 */
export const POSITIONS = 'position/'

/** A value that lies in a copy until all of it is there: a store with it is none yet. */
export const UNFINISHED = 'copy/unfinished'

/** An entry larger than this is refused, and so is a value, the caller's own too; what they carry belongs in blobs. */
export const MAX_ENTRY_BYTES = 32 * 1024 * 1024
/** A blob larger than this is refused: what one store takes, every other must take too, and the narrowest keeps it as text. */
export const MAX_BLOB_BYTES = 256 * 1024 * 1024
export const MAX_KEY_BYTES = 1024
