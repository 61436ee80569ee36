import { Closed, FencedOut, InvalidInput, KeyExists, Refused, RevisionConflict } from '../../src/protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../../src/protocol/json.ts'
import type { Acquired, Backend, Entry, Head, Holder, Lease, ScanFrom, Write } from '../../src/vsl/backend.ts'
import { holderIsGone, withChecks } from '../../src/vsl/vsl.ts'
import { backendContract } from '../contracts/backend-contract.ts'

backendContract(
  'with-checks',
  () => {
    let now = 0
    return {
      open: async () => withChecks(new NaiveStore(() => now)),
      async elapse(ms) {
        now += ms
      },
    }
  },
  { scanKeys: 3_000 },
)

interface Stream extends Head {
  readonly holder?: Holder | undefined
  readonly until: number
}
interface Reading {
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

/** A store as somebody writes it who looks at nothing that comes in. */
class NaiveStore implements Backend {
  readonly traits = { durable: false, processes: 'one', grouped: false } as const
  readonly #now: () => number
  readonly #own = new Map<string, string>()
  readonly #values = new Map<string, string>()
  readonly #blobs = new Map<Digest, { readonly bytes: Uint8Array; readonly putAt: number }>()
  readonly #streams = new Map<string, Stream>()
  readonly #log: ({ readonly stream: string; readonly revision: number; readonly body: string } | undefined)[] = []
  readonly #waiting = new Set<() => void>()
  #closed = false

  constructor(now: () => number) {
    this.#now = now
  }

  async get(key: string) {
    return parsed(this.#own.get(key))
  }
  async set(key: string, value: Json) {
    this.#own.set(key, JSON.stringify(value))
  }
  async delete(key: string) {
    this.#own.delete(key)
  }

  async commit({ stream, expected, fence, entry, forget, inserts, puts, deletes }: Write) {
    const { revision, token } = this.#at(stream)
    if (fence !== undefined && fence !== token) throw new FencedOut(stream, fence, token)
    if (expected !== revision) throw new RevisionConflict(stream, expected, revision)
    for (const [key] of inserts) if (this.#values.has(key)) throw new KeyExists(key)
    if (forget && this.#log.at(-1)?.stream === stream)
      throw new Refused(`${stream} has the newest entry`, 'wait for another')
    for (const [key, value] of [...inserts, ...puts]) this.#values.set(key, JSON.stringify(value))
    for (const key of deletes) this.#values.delete(key)
    if (forget) this.#forget(stream)
    if (entry === undefined) return
    this.#streams.set(stream, { ...this.#at(stream), revision: revision + 1 })
    this.#log.push({ stream, revision: revision + 1, body: JSON.stringify(entry) })
    this.#wake()
  }
  async getMany(keys: readonly string[]) {
    return new Map(keys.filter((key) => this.#values.has(key)).map((key) => [key, parsed(this.#values.get(key))!]))
  }
  async *scan(prefix: string, { after = '', limit = Number.POSITIVE_INFINITY, own = false }: ScanFrom = {}) {
    const values = own ? this.#own : this.#values
    const keys = [...values.keys()].filter((key) => key.startsWith(prefix) && byBytes(key, after) > 0).sort(byBytes)
    let left = limit
    for (const key of keys) {
      this.#refuseIfClosed()
      const value = parsed(values.get(key))
      if (value === undefined) continue
      if (left-- <= 0) return
      yield [key, value] as const
    }
  }

  async head(stream: string) {
    const { revision, token } = this.#at(stream)
    return { revision, token }
  }
  read(stream: string, from: Reading & { readonly after?: number } = {}) {
    return this.#entries(0, from, (entry) => entry.stream === stream && entry.revision > (from.after ?? 0))
  }
  async *feed(from: Reading & { readonly after?: string } = {}) {
    const after = from.after ?? position(0)
    if (!/^\d{16}$/.test(after) || Number(after) > this.#log.length)
      throw new InvalidInput('feed', [
        { path: 'after', rule: 'position', message: 'is none of this store', found: after },
      ])
    yield* this.#entries(Number(after), from, () => true)
  }

  async acquire(stream: string, holder: Holder, ttlMs: number): Promise<Acquired | undefined> {
    const { revision, token, holder: held, until } = this.#at(stream)
    if (held && held.id !== holder.id && until > this.#now() && !holderIsGone(held)) return undefined
    this.#streams.set(stream, { revision, token: token + 1, holder, until: this.#now() + ttlMs })
    return { stream, holder, token: token + 1, ttlMs, revision }
  }
  async renew({ stream, holder, token, ttlMs }: Lease) {
    const head = this.#at(stream)
    if (head.holder?.id !== holder.id || head.token !== token) return false
    this.#streams.set(stream, { ...head, holder, until: this.#now() + ttlMs })
    return true
  }
  async release({ stream, holder, token }: Lease) {
    const head = this.#at(stream)
    if (head.holder?.id === holder.id && head.token === token)
      this.#streams.set(stream, { ...head, holder: undefined, until: 0 })
  }

  async putBlob(bytes: Uint8Array) {
    const digest = digestOf(bytes)
    this.#blobs.set(digest, { bytes: new Uint8Array(bytes), putAt: this.#now() }) // a slice of a Buffer is no copy
    return digest
  }
  async getBlob(digest: Digest) {
    return this.#blobs.get(digest)?.bytes.slice()
  }
  async *blobs() {
    for (const digest of this.#blobs.keys()) {
      this.#refuseIfClosed()
      yield digest
    }
  }

  async forgetBlobs(digests: readonly Digest[], unputMs: number) {
    const isUnput = (putAt: number) => putAt + unputMs <= this.#now()
    return digests.filter((digest) => {
      const blob = this.#blobs.get(digest)
      return blob && isUnput(blob.putAt) && this.#blobs.delete(digest)
    })
  }

  async close() {
    this.#closed = true
    this.#wake()
  }

  #at(stream: string): Stream {
    return this.#streams.get(stream) ?? { revision: 0, token: 0, until: 0 }
  }
  #forget(stream: string) {
    for (const [at, line] of this.#log.entries()) if (line?.stream === stream) this.#log[at] = undefined
    this.#streams.set(stream, { ...this.#at(stream), revision: 0 })
  }
  #wake() {
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
  }
  #refuseIfClosed() {
    if (this.#closed) throw new Closed('the naive store')
  }
  async *#entries(from: number, { follow = false, signal }: Reading, isWanted: (entry: Entry) => boolean) {
    for (let at = from; ; ) {
      if (signal?.aborted || (this.#closed && follow)) return
      this.#refuseIfClosed()
      if (at < this.#log.length) {
        const line = this.#log[at++]
        const entry = line && { ...line, position: position(at), body: JSON.parse(line.body) }
        if (entry && isWanted(entry)) yield entry
      } else if (follow)
        await new Promise<void>((resolve) => {
          this.#waiting.add(resolve)
          signal?.addEventListener('abort', () => resolve(), { once: true })
        })
      else return
    }
  }
}

const parsed = (text: string | undefined): Json | undefined => (text === undefined ? undefined : JSON.parse(text))
const position = (at: number): string => String(at).padStart(16, '0')
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
