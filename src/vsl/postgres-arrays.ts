/** A text[] in the server's own binary form: nothing to escape, nothing to parse. Undefined becomes null. */
export function textArray(texts: readonly (string | undefined)[]): Buffer {
  const sizes = texts.map((text) => (text === undefined ? 0 : Buffer.byteLength(text)))
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + 4 + size, 20))
  let at = bytes.writeInt32BE(1, 0) // dimensions
  at = bytes.writeInt32BE(texts.includes(undefined) ? 1 : 0, at)
  at = bytes.writeInt32BE(TEXT_OID, at)
  at = bytes.writeInt32BE(texts.length, at)
  at = bytes.writeInt32BE(1, at) // where counting begins
  for (const [i, text] of texts.entries()) {
    at = bytes.writeInt32BE(text === undefined ? -1 : sizes[i]!, at)
    if (text !== undefined) at += bytes.write(text, at)
  }
  return texts.length === 0 ? EMPTY : bytes
}

export const numberArray = (numbers: readonly (number | undefined)[]): string =>
  `{${numbers.map((number) => number ?? 'null').join()}}`

const TEXT_OID = 25
/** No dimensions, no nulls. */
const EMPTY = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TEXT_OID])
