import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from '../protocol/missing-file.ts'
import type { Holder } from './backend.ts'
import { sumOf } from './file-lines.ts'
import { replaceDurably } from './file-sync.ts'

/**
 * What the journal up to a line adds up to, so that opening need not read it from the beginning. Only a help: when it is missing, damaged, or of
 * another journal than the one beside it, the journal is read instead.
 */
export interface Checkpoint {
  readonly seq: number
  /** The sum of that line: it must still stand in the journal. */
  readonly sum: string
  /** The journal's files, by their first lines, that hold forgotten entries. */
  readonly unswept: readonly number[]
  readonly streams: readonly (readonly [name: string, StreamState])[]
  readonly values: Lines
  readonly own: Lines
}

interface StreamState {
  readonly revision: number
  readonly token: number
  /** The lines of its first and of its last entry; 0 when it has none. */
  readonly first: number
  readonly last: number
  /** The line by which it was last forgotten; 0 if it never was. */
  readonly forgotten: number
  readonly lease?: { readonly holder: Holder; readonly ttlMs: number } | undefined
}

/** Two lists of one length rather than a list of pairs: read three times as fast. */
export interface Lines {
  readonly keys: readonly string[]
  readonly seqs: readonly number[]
}

export const linesOf = (lines: ReadonlyMap<string, number>): Lines => ({
  keys: [...lines.keys()],
  seqs: [...lines.values()],
})

export function mapOf({ keys, seqs }: Lines): Map<string, number> {
  const lines = new Map<string, number>()
  for (let i = 0; i < keys.length; i++) lines.set(keys[i]!, seqs[i]!)
  return lines
}

const FORMAT = 2

export async function writeCheckpoint(folder: string, checkpoint: Checkpoint): Promise<void> {
  const text = JSON.stringify({ format: FORMAT, ...checkpoint })
  await replaceDurably(join(folder, NAME), `${sumOf(text)}\n${text}\n`)
}

export async function readCheckpoint(folder: string): Promise<Checkpoint | undefined> {
  const whole = await readFile(join(folder, NAME), 'utf8').catch(unlessMissing)
  if (whole === undefined) return undefined
  const text = whole.slice(17, -1)
  if (whole.slice(0, 16) !== sumOf(text)) return undefined
  const { format, ...checkpoint } = JSON.parse(text)
  return format === FORMAT ? checkpoint : undefined
}

const NAME = 'checkpoint'
