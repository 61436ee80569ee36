import { hash } from 'node:crypto'
import type { Json } from '../protocol/json.ts'
import type { Holder } from './backend.ts'
import type { PreparedWrite } from './grouped.ts'

/** One line of the journal. `seq` counts lines; `durable` is the last line known to be on the disk when this one was written. */
export type Line = { readonly seq: number; readonly durable: number } & (CommitLine | SetLine | DeleteLine | LeaseLine)

type Pairs = readonly (readonly [key: string, value: Json])[]

/** A whole Write, or what is left of it. With an entry also its revision, and the line of the stream's entry before it. */
export interface CommitLine {
  readonly kind: 'commit'
  readonly stream: string
  readonly expected: number
  readonly fence?: number
  readonly revision?: number
  readonly previous?: number
  readonly entry?: Json
  readonly forget?: true
  readonly inserts: Pairs
  readonly puts: Pairs
  readonly deletes: readonly string[]
}
interface SetLine {
  readonly kind: 'set'
  readonly key: string
  readonly value: Json
}
interface DeleteLine {
  readonly kind: 'delete'
  readonly key: string
}
export type LeaseLine = AcquireLine | ReleaseLine
interface AcquireLine {
  readonly kind: 'acquire'
  readonly stream: string
  readonly token: number
  readonly holder: Holder
  readonly ttlMs: number
}
interface ReleaseLine {
  readonly kind: 'release'
  readonly stream: string
  readonly token: number
}

/** A line as text, its sum already checked. */
export interface RawLine {
  readonly seq: number
  readonly sum: string
  readonly text: string
}

/** The text of a line's own members: all but `seq` and `durable`, which the journal puts in front. */
export type LineText = string

export const commitText = (write: PreparedWrite, previous: number): LineText =>
  members({
    kind: '"commit"',
    stream: JSON.stringify(write.stream),
    expected: String(write.expected),
    fence: write.fence === undefined ? undefined : String(write.fence),
    revision: write.entry === undefined ? undefined : String(write.expected + 1),
    previous: write.entry === undefined ? undefined : String(previous),
    entry: write.entry,
    forget: write.forget ? 'true' : undefined,
    inserts: pairs(write.inserts),
    puts: pairs(write.puts),
    deletes: JSON.stringify(write.deletes),
  })

export const setText = (key: string, text: string): LineText =>
  members({ kind: '"set"', key: JSON.stringify(key), value: text })

export const deleteText = (key: string): LineText => members({ kind: '"delete"', key: JSON.stringify(key) })

export const leaseText = (line: LeaseLine): LineText => JSON.stringify(line).slice(1, -1)

const pairs = (list: readonly (readonly [string, string])[]): string =>
  `[${list.map(([key, text]) => `[${JSON.stringify(key)},${text}]`).join(',')}]`

const members = (texts: Readonly<Record<string, string | undefined>>): string =>
  Object.entries(texts)
    .flatMap(([name, text]) => (text === undefined ? [] : [`"${name}":${text}`]))
    .join(',')

/** A line as it stands in the file, still JSON: its sum in front, so that a torn or changed one is known. */
export const sealed = (seq: number, durable: number, text: LineText): string =>
  sealedLine(`{"seq":${seq},"durable":${durable},${text}}`)

/** The same of the whole text of a line. */
export const sealedLine = (text: string): string => `{"sum":"${sumOf(text)}","line":${text}}\n`

/** Undefined when the bytes are not a whole line as it was written; how it ends may have been changed by git. */
export function unsealed(bytes: Buffer): RawLine | undefined {
  const whole = bytes.toString('utf8', 0, bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length)
  const [, sum, seq] = SEAL.exec(whole.slice(0, 80)) ?? []
  const text = whole.slice(TEXT_AT, -1)
  return sum !== undefined && whole.endsWith('}') && sumOf(text) === sum ? { sum, seq: Number(seq), text } : undefined
}

const CARRIAGE_RETURN = 13
const SEAL = /^\{"sum":"([0-9a-f]{16})","line":\{"seq":(\d+),/
const TEXT_AT = '{"sum":"0123456789abcdef","line":'.length

export const sumOf = (text: string): string => hash('sha256', text).slice(0, 16)
