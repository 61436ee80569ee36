/** A value in a few words: never the whole of it, and without calling anything it brought along. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return shortened(value)
  if (Array.isArray(value)) return `array of ${counted(value.length, 'item')}`
  if (typeof value === 'object' && value !== null) return 'object'
  return typeof value === 'function' || typeof value === 'symbol' ? typeof value : String(value)
}

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** `steps[0].step_id`; a key that is no name is quoted, a long one shortened. */
export function shownPath(path: readonly (string | number)[]): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else if (PLAIN_KEY.test(part)) text += text === '' ? part : `.${part}`
    else text += `[${shortened(part)}]`
  }
  return text
}

const PLAIN_KEY = /^[\w$]{1,60}$/
const SHOWN = 60
const shortened = (text: string): string =>
  text.length <= SHOWN ? JSON.stringify(text) : `${JSON.stringify(text.slice(0, SHOWN))}… (${text.length} characters)`
