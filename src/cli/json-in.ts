import { InvalidInput } from '../protocol/errors.ts'
import type { Json } from '../protocol/json.ts'

/** What a flag says in JSON. Throws InvalidInput for what is none. */
export function jsonIn(flag: string, text: string): Json {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new InvalidInput(flag, [{ path: '', rule: 'json', message: 'is not JSON', found: text }], { cause })
  }
}
