/**
 * The first name that an object in a JSON text has twice. `JSON.parse` takes the last of them and other readers the first, so that one file tells
 * two stories. Of what is no JSON it says anything, or nothing.
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
          const name = unescaped(text.slice(i + 1, end))
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
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}

/** "a" and "\u0061" are one name. */
function unescaped(name: string): string {
  if (!name.includes('\\')) return name
  try {
    return JSON.parse(`"${name}"`)
  } catch {
    return name // the text is no JSON
  }
}
