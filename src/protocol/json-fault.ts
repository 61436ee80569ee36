/** What is wrong with a text that `JSON.parse` has refused, in a few words that repeat nothing of it, and on which line. */
export function jsonFault(text: string, error: unknown): { readonly line: number; readonly message: string } {
  const { message } = error as SyntaxError
  const [, says, position] = /^(.*?) (?:in|after) JSON at position (\d+)/s.exec(message) ?? []
  const at = position !== undefined ? Number(position) : isUnexpected(message) ? firstUnexpected(text) : text.length
  return { line: text.slice(0, at).split('\n').length, message: says ?? message.replace(/, .*$/s, '') }
}

/** Of a character that cannot stand where it does Node shows what is around it, and not the position. */
const isUnexpected = (message: string): boolean => message.startsWith('Unexpected token')

/** A text that is cut off before that character has another fault: it ends too early. */
function firstUnexpected(text: string): number {
  let [least, most] = [0, text.length - 1]
  while (least < most) {
    const middle = Math.floor((least + most) / 2)
    if (isUnexpected(faultOf(text.slice(0, middle + 1)))) most = middle
    else least = middle + 1
  }
  return least
}

function faultOf(text: string): string {
  try {
    JSON.parse(text)
    return ''
  } catch (error) {
    return (error as SyntaxError).message
  }
}
