import { expect, it } from 'vitest'
import { eventsIn, Oversized, type ServerEvent } from '../../src/ael/mcp-events.ts'

async function* cutInto(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
const read = async (text: string, size = text.length, limit = 100): Promise<readonly ServerEvent[]> => {
  const events: ServerEvent[] = []
  for await (const event of eventsIn(cutInto(Buffer.from(text), size), limit)) events.push(event)
  return events
}

const STREAM =
  '\uFEFF: a comment\n\ndata: one\n\nid: 7\nretry: 250\ndata:\n\nevent: message\ndata:two\ndata:  lines of it: \u00e9\nother: x\n\n' +
  'event: other\ndata: not ours\n\nretry: soon\nid\ndata\n\ndata: not whole'
const EVENTS = [
  { data: 'one' },
  { data: '', id: '7', retryMs: 250 },
  { data: 'two\n lines of it: \u00e9' },
  { data: '' },
  { data: '', id: '' },
]

it.each(['\n', '\r\n', '\r'])('reads events whose lines end with %j, wherever the stream is cut', async (end) => {
  const text = STREAM.replaceAll('\n', end)
  for (let size = 1; size <= 12; size++) expect(await read(text, size)).toEqual(EVENTS)
  expect(await read(text)).toEqual(EVENTS)
})

it.each([1, 7, 1_000])('bounds each event by its bytes, and no stream, in chunks of %i', async (size) => {
  const fits = `data: ${'x'.repeat(30)}\n\n`
  expect(await read(fits.repeat(20), size, 36)).toHaveLength(20)
  expect(await read(': awake\n'.repeat(20) + fits, size, 36)).toHaveLength(1)
  await expect(read(fits, size, 35)).rejects.toBeInstanceOf(Oversized)
  await expect(read(`data: ${'é'.repeat(20)}\n\n`, size, 36)).rejects.toBeInstanceOf(Oversized)
  await expect(read('data: x\n'.repeat(6), size, 36)).rejects.toBeInstanceOf(Oversized)
  await expect(read('x'.repeat(37), size, 36)).rejects.toBeInstanceOf(Oversized)
})
