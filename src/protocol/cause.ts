import { inWords } from './thrown.ts'

/** A client may hang the command on its errors, with the password or the data in it: only what the error says goes on. */
export function causeOf(error: unknown): Error {
  const { name, message } = error instanceof Error ? error : new Error(inWords(error))
  return Object.defineProperty(new Error(message), 'name', { value: name })
}
