import { Corrupt } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'

/** The value that a text under this key says. Throws Corrupt for one that nobody of us wrote. */
export function parsedValue(key: string, text: string): Json {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw damaged(`the value of ${key}`, cause)
  }
}

/** The same of an entry. */
export function parsedEntry(stream: string, revision: number, text: string): Json {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw damaged(`entry ${revision} of ${stream}`, cause)
  }
}

const damaged = (what: string, cause: unknown): Corrupt =>
  new Corrupt(what, 'it is no JSON: bring the store back from a backup', { cause })
