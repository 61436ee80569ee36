/** One event of a `text/event-stream`; `data` is empty where it only says from where to go on, or when. */
export interface ServerEvent {
  readonly data: string
  readonly id?: string
  readonly retryMs?: number
}

/** A message has more bytes than it may have. */
export class Oversized extends Error {}

/** The events of a stream as they come; throws Oversized as soon as one is larger than it may be. What is not whole at the end is none. */
export async function* eventsIn(chunks: AsyncIterable<Uint8Array>, limit: number): AsyncGenerator<ServerEvent> {
  let event = emptyEvent()
  for await (const line of linesIn(chunks, () => limit - event.bytes)) {
    if (line !== '') event.take(line)
    else {
      if (event.isThere) yield event.whole()
      event = emptyEvent()
    }
  }
}

function emptyEvent() {
  const data: string[] = []
  const more: { id?: string; retryMs?: number } = {}
  let type = ''
  return {
    bytes: 0,
    isThere: false,
    take(line: string) {
      const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) as unknown as [string, string, string?]
      if (field === 'data') {
        data.push(value)
        this.bytes += Buffer.byteLength(line)
      } else if (field === 'event') type = value
      else if (field === 'id' && !value.includes('\0')) more.id = value
      else if (field === 'retry' && /^\d+$/.test(value)) more.retryMs = Number(value)
      else return // a comment, which keeps the connection awake
      this.isThere = true
    },
    whole: (): ServerEvent => ({ data: type === '' || type === 'message' ? data.join('\n') : '', ...more }),
  }
}

/** Without what ends them: CR, LF or both, which may come in two chunks. */
async function* linesIn(chunks: AsyncIterable<Uint8Array>, left: () => number): AsyncGenerator<string> {
  const decoder = new TextDecoder() // which leaves out a byte order mark
  let parts: string[] = []
  let bytes = 0
  let endedByCr = false
  const add = (part: string) => {
    parts.push(part)
    bytes += Buffer.byteLength(part)
    if (bytes > left()) throw new Oversized('a message is larger than it may be')
  }
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true })
    let from = endedByCr && text.startsWith('\n') ? 1 : 0
    if (text !== '') endedByCr = text.endsWith('\r')
    const ends = /\r\n?|\n/g
    ends.lastIndex = from
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      add(text.slice(from, end.index))
      from = ends.lastIndex
      yield parts.join('')
      parts = []
      bytes = 0
    }
    if (from < text.length) add(text.slice(from))
  }
}
