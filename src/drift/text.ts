/** What bytes say as text; `undefined` for what is not UTF-8 or holds a NUL: that is binary, and is neither shown nor merged. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined // not UTF-8
  }
}
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Lines with their ends, so that joined they are the text again; the last one may have none. */
export const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? []

/** How a text ends its lines: `none` when it is a single line. */
export type LineEnd = 'lf' | 'crlf' | 'mixed' | 'none'

export function lineEnd(text: string): LineEnd {
  const all = text.split('\n').length - 1
  if (all === 0) return 'none'
  const crlf = text.split('\r\n').length - 1
  return crlf === 0 ? 'lf' : crlf === all ? 'crlf' : 'mixed'
}
