import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { Backend } from '../../../src/vsl/backend.ts'
import { append, collect, type Given, keysOf, needsManyProcesses, write } from './given.ts'

/** Keys in byte order, page by page, whatever they are called and whoever writes meanwhile. */
export function scans(given: Given): void {
  describe('scans', () => {
    it('walks odd keys in the order of their UTF-8 bytes', async () => {
      await given.backend.commit(write('g', 0, { puts: ODD_KEYS.map((key) => [key, { key }]) }))
      for (const key of ODD_KEYS) await given.backend.set(key, { own: key })
      const inOrder = ODD_KEYS.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      expect(await collect(given.backend.scan(''))).toEqual(inOrder.map((key) => [key, { key }]))
      expect(await collect(given.backend.scan('', { own: true }))).toEqual(inOrder.map((key) => [key, { own: key }]))
      const found = await given.backend.getMany(ODD_KEYS)
      for (const key of ODD_KEYS) {
        expect(found.get(key)).toEqual({ key })
        expect(await given.backend.get(key)).toEqual({ own: key })
      }
      for (const [i, key] of inOrder.entries()) {
        expect((await collect(given.backend.scan('', { after: key }))).map(([k]) => k)).toEqual(inOrder.slice(i + 1))
        const withPrefix = inOrder.filter((other) => other.startsWith(key))
        expect(await keysOf(given.backend, key)).toEqual(withPrefix)
      }
      await given.backend.commit(write('g', 0, { deletes: ODD_KEYS }))
      expect(await keysOf(given.backend)).toEqual([])
    })

    it('takes odd names for streams', async () => {
      for (const stream of ODD_KEYS) await given.backend.commit(append(stream, 0, { stream }))
      for (const stream of ODD_KEYS) {
        expect(await given.backend.head(stream)).toMatchObject({ revision: 1 })
        expect((await collect(given.backend.read(stream))).map((entry) => [entry.stream, entry.body])).toEqual([
          [stream, { stream }],
        ])
      }
      expect((await collect(given.backend.feed())).map((entry) => entry.stream)).toEqual(ODD_KEYS)
    })

    it('takes a prefix for text, not for a pattern', async () => {
      const keys = ['a%b', 'a_b', 'a*b', 'aXb', 'a[b', 'a\\b', 'a?b', 'A%b']
      await given.backend.commit(write('g', 0, { puts: keys.map((key) => [key, 1]) }))
      for (const prefix of ['a%', 'a_', 'a*', 'a[', 'a\\', 'a?'])
        expect(await keysOf(given.backend, prefix)).toEqual(keys.filter((key) => key.startsWith(prefix)))
    })

    it('starts after a key, also one that is not there, and stops at the limit', async () => {
      await given.backend.commit(write('g', 0, { puts: ['a/1', 'a/2', 'a/3', 'b/1'].map((key) => [key, key]) }))
      const scan = async (prefix: string, from: { after?: string; limit?: number }) =>
        (await collect(given.backend.scan(prefix, from))).map(([key]) => key)
      expect(await scan('a/', { after: 'a/1' })).toEqual(['a/2', 'a/3'])
      expect(await scan('a/', { after: 'a/15' })).toEqual(['a/2', 'a/3'])
      expect(await scan('a/', { after: 'a' })).toEqual(['a/1', 'a/2', 'a/3'])
      expect(await scan('a/', { after: 'z' })).toEqual([])
      expect(await scan('a/', { limit: 2 })).toEqual(['a/1', 'a/2'])
      expect(await scan('', { after: 'a/2', limit: 2 })).toEqual(['a/3', 'b/1'])
      expect(await scan('a/', { limit: 0 })).toEqual([])
      expect(await scan('c', {})).toEqual([])
    })

    it(
      'walks a long store in bounded memory, each key once',
      async () => {
        await fill(given.backend, given.scanKeys)
        const live = memoryInUse()
        const before = live()
        let most = 0
        let count = 0
        let last = ''
        for await (const [key, value] of given.backend.scan('k/')) {
          if (key <= last || (value as { i: number }).i !== count) throw new Error(`${key} came after ${last}`)
          last = key
          if (++count % Math.ceil(given.scanKeys / 10) === 0) most = Math.max(most, live() - before)
        }
        expect(count).toBe(given.scanKeys)
        // All of it at once would be a kilobyte for each key.
        expect(most).toBeLessThan(Math.max(8e6, given.scanKeys * 1024 * 0.25))
      },
      given.longMs,
    )

    it(
      'sees what stays and nothing twice while somebody writes',
      async () => {
        const count = Math.min(given.scanKeys, 10_000)
        await fill(given.backend, count)
        await scanWhileWriting(given.backend, given.backend, count)
      },
      given.longMs,
    )

    it(
      'sees what stays and nothing twice while another process writes',
      async (context) => {
        needsManyProcesses(given, context)
        const count = Math.min(given.scanKeys, 10_000)
        await fill(given.backend, count)
        await scanWhileWriting(given.backend, await given.beside(), count)
      },
      given.longMs,
    )
  })
}

const long = (first: string) => first.padEnd(1024, 'long/')
const ODD_KEYS = [
  'a',
  'A',
  'a/b',
  'a/b/c',
  'a//b',
  '/a',
  'a/',
  '.',
  '..',
  '../a',
  'a.b',
  'a b',
  ' a',
  'a ',
  'a%',
  'a%2Fb',
  'a_',
  '%',
  '_',
  '*',
  '?',
  '[a]',
  '{a}',
  '~',
  '^',
  '-',
  '#',
  '$1',
  '\\',
  "it's",
  '"quoted"',
  '`',
  ';--',
  'a:b',
  'a|b',
  '<a>',
  '\u0001',
  'a\n',
  '\u007f',
  '\u0080',
  'ä',
  'a\u0308',
  'ÿ',
  'ß',
  '中文',
  '\ud7ff',
  '\ue000',
  '\ufffd',
  '\uffff',
  '\u{10000}',
  '🜁',
  '😀/x',
  '\u{10ffff}',
  '__proto__',
  'constructor',
  'con',
  'nul',
  long('x'),
  long('y'),
  '😀'.repeat(256),
  'ü'.repeat(512),
  'Ab'.repeat(512),
] as const satisfies readonly string[]

const keyOf = (i: number) => `k/${String(i).padStart(7, '0')}`
const PADDING = 'x'.repeat(1000)

async function fill(backend: Backend, count: number): Promise<void> {
  for (let start = 0; start < count; start += 1000) {
    const puts = Array.from(
      { length: Math.min(1000, count - start) },
      (_, i) => [keyOf(start + i), { i: start + i, PADDING }] as const,
    )
    await backend.commit(write('fill', 0, { puts }))
  }
}

/** Deletes odd keys, changes even ones and adds new ones, all over the range, while the scan is on its way. */
async function scanWhileWriting(reader: Backend, writer: Backend, count: number): Promise<void> {
  let scanning = true
  const writing = (async () => {
    for (let round = 0; scanning; round++) {
      const at = (round * 37) % count
      const odd = at % 2 === 0 ? at + 1 : at
      await writer.commit(
        write('w', 0, {
          puts: [
            [keyOf(odd - 1), { i: odd - 1, changed: round }],
            [`${keyOf(at)}/new${round}`, { i: -1 }],
          ],
          deletes: [keyOf(odd)],
        }),
      )
      await nextTurn() // a store in memory would never let the reader in
    }
  })()
  const seen: string[] = []
  for await (const [key, value] of reader.scan('k/')) {
    seen.push(key)
    const { i } = value as { i: number }
    if (i !== -1 && keyOf(i) !== key) throw new Error(`${key} holds the value of ${i}`)
    if (seen.length % 20 === 0) await nextTurn()
  }
  scanning = false
  await writing
  expect(seen).toEqual(seen.toSorted())
  expect(new Set(seen).size).toBe(seen.length)
  const stayed = Array.from({ length: count / 2 }, (_, i) => keyOf(2 * i))
  const set = new Set(seen)
  expect(stayed.filter((key) => !set.has(key))).toEqual([])
}

/** What is in use after everything that is not was thrown away. */
function memoryInUse(): () => number {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  return () => {
    gc()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
}
