import { InvalidInput, type Problem, TooLarge } from '../protocol/errors.ts'
import { isObject, type Json } from '../protocol/json.ts'
import { MAX_ENTRY_BYTES, MAX_KEY_BYTES, type Write } from './backend.ts'

/** A write's values as the JSON text that every member stores. */
export interface WriteTexts {
  readonly entry: string | undefined
  readonly inserts: readonly (readonly [string, string])[]
  readonly puts: readonly (readonly [string, string])[]
}

/** Refuses what no member may accept, and turns each value into text once. */
export function checkWrite(write: Write): WriteTexts {
  const problems: Problem[] = []
  if (!isName(write.stream)) problems.push(badName('stream', write.stream))
  if (!Number.isSafeInteger(write.expected) || write.expected < 0)
    problems.push({ path: 'expected', rule: 'revision', message: 'is not a revision', found: String(write.expected) })
  const seen = new Set<string>()
  const claim = (key: string, path: string) => {
    if (!isName(key)) problems.push(badName(path, key))
    else if (seen.has(key)) problems.push({ path, rule: 'disjoint', message: 'names a key twice', found: key })
    seen.add(key)
  }
  for (const [i, [key]] of write.inserts.entries()) claim(key, `inserts[${i}]`)
  for (const [i, [key]] of write.puts.entries()) claim(key, `puts[${i}]`)
  for (const [i, key] of write.deletes.entries()) claim(key, `deletes[${i}]`)
  if (problems.length > 0) throw new InvalidInput('write', problems)

  const entry = write.entry === undefined ? undefined : textOf('entry', write.entry)
  // A character is at most three bytes of UTF-8 per UTF-16 unit: the exact count is only worth taking when it could matter.
  if (entry !== undefined && entry.length * 3 > MAX_ENTRY_BYTES) {
    const bytes = Buffer.byteLength(entry)
    if (bytes > MAX_ENTRY_BYTES)
      throw new TooLarge(
        `the entry for ${write.stream}`,
        bytes,
        MAX_ENTRY_BYTES,
        'put large outputs into blobs, or split the commit',
      )
  }
  return { entry, inserts: texts('inserts', write.inserts), puts: texts('puts', write.puts) }
}

export const isName = (text: unknown): text is string =>
  typeof text === 'string' &&
  text.length > 0 &&
  (text.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(text) <= MAX_KEY_BYTES) &&
  text.isWellFormed()

const badName = (path: string, found: unknown): Problem => ({
  path,
  rule: 'key',
  message: `is not well-formed text of 1 to ${MAX_KEY_BYTES} bytes`,
  found: String(found).slice(0, 80),
})

const texts = (path: string, puts: Write['puts']) =>
  puts.map(([key, value], i) => [key, textOf(`${path}[${i}]`, value)] as const)

/** The JSON text of a value; refuses what JSON would silently change or drop. */
export function textOf(path: string, value: Json): string {
  const text = JSON.stringify(value)
  if (text === undefined || (isObject(value) && typeof value.toJSON === 'function'))
    throw new InvalidInput('write', [{ path, rule: 'json', message: 'is not JSON', found: typeof value }])
  return text
}
