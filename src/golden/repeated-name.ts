/**
 * The first name that an object in a JSON text has twice. `JSON.parse` takes the last of them and other readers the first, so that one file tells
 * two stories. The text must be JSON.
 */
export function repeatedName(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [] // the names so far of each object that has begun; an array has none
  let isName = false
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '{':
        open.push(new Set())
        isName = true
        break
      case '[':
        open.push(undefined)
        isName = false
        break
      case '}':
      case ']':
        open.pop()
        break
      case ',':
        isName = open.at(-1) !== undefined
        break
      case '"': {
        const end = endOfString(text, i)
        const names = open.at(-1)
        if (isName && names) {
          const name = JSON.parse(text.slice(i, end + 1)) as string // "a" and "\u0061" are one name
          if (names.has(name)) return name
          names.add(name)
        }
        isName = false
        i = end
      }
    }
  }
  return undefined
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
