import { hash } from 'node:crypto'

/**
 * Where a key's object file lies: readable where the key is plain, safe on every file system, and never the same for two keys, also where
 * `A` and `a` are one name. A slash in the key is a folder; capitals are written `^a`, everything else that is not plain as `%` and the hex of
 * its UTF-8 bytes. What would become too long or too deep lies in the folder `~` under its beginning and its digest.
 */
export function objectPath(key: string): string {
  const parts = key.split('/')
  const file = `${escaped(parts.pop() as string, ODD_IN_FILE)}.json`
  const path = [...parts.map((part) => escaped(part, ODD_IN_FOLDER)), file]
  if (path.length <= MAX_DEPTH && path.every((part) => part.length <= MAX_NAME)) return path.join('/')
  return `~/${escaped(key, ODD_IN_FOLDER).slice(0, 80)}~${hash('sha256', key).slice(0, 40)}.json`
}

const MAX_NAME = 200
const MAX_DEPTH = 8

/** A folder has no dot in its name, so it cannot meet a file of the same name. */
const ODD_IN_FOLDER = /[^a-z0-9_-]/gu
const ODD_IN_FILE = /[^a-z0-9_.-]|^\./gu

const escaped = (part: string, odd: RegExp): string => (part === '' ? '%' : part.replace(odd, escapedCharacter))

const escapedCharacter = (character: string): string =>
  /[A-Z]/.test(character) ? `^${character.toLowerCase()}` : Buffer.from(character).toString('hex').replace(/../g, '%$&')
