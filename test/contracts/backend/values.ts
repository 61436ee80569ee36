import { describe, expect, it } from 'vitest'
import { InvalidInput, KeyExists } from '../../../src/protocol/errors.ts'
import type { Json } from '../../../src/protocol/json.ts'
import { collect, type Given, write } from './given.ts'

/** What goes in comes out, unchanged and as a copy. */
export function values(given: Given): void {
  describe('values', () => {
    it('has nothing under a key that was never set', async () => {
      expect(await given.backend.get('nobody')).toBeUndefined()
      expect(await given.backend.getMany(['nobody', 'no one'])).toEqual(new Map())
    })

    it.for(ODD_VALUES)('keeps %s as it was', async ([, value]) => {
      await given.backend.set('own', value)
      await given.backend.commit(write('g', 0, { entry: value, inserts: [['new', value]], puts: [['value', value]] }))
      const text = JSON.stringify(value)
      expect(JSON.stringify(await given.backend.get('own'))).toBe(text)
      const found = await given.backend.getMany(['value', 'new'])
      expect([...found.keys()].sort()).toEqual(['new', 'value'])
      expect(JSON.stringify(found.get('value'))).toBe(text)
      expect(JSON.stringify(found.get('new'))).toBe(text)
      const [scanned] = await collect(given.backend.scan('value'))
      expect(JSON.stringify(scanned?.[1])).toBe(text)
      const [read] = await collect(given.backend.read('g'))
      expect(JSON.stringify(read?.body)).toBe(text)
      const [fed] = await collect(given.backend.feed())
      expect(JSON.stringify(fed?.body)).toBe(text)
    })

    it('keeps what was checked before as it keeps everything', async () => {
      const { backend } = given
      const value = { b: [1, 'é', null], a: { c: true } }
      const checked = write('s', 0, {
        checked: true,
        entry: { n: 1, value },
        inserts: [['k', value]],
        puts: [['l', 'x']],
      })
      await backend.commit(checked)
      expect(Object.fromEntries(await backend.getMany(['k', 'l']))).toEqual({ k: value, l: 'x' })
      expect((await collect(backend.read('s')))[0]?.body).toEqual({ n: 1, value })
      await expect(backend.commit({ ...checked, expected: 1 })).rejects.toThrow(KeyExists)
      await expect(backend.commit({ ...checked, inserts: [['\0', 1]] })).rejects.toThrow(InvalidInput)
    })

    it('keeps values of 5 MB', async () => {
      const value = { text: 'größe 5 '.repeat(600_000) }
      await given.backend.set('own', value)
      await given.backend.commit(write('g', 0, { entry: value, puts: [['large', value]] }))
      expect((await given.backend.get('own')) as object).toStrictEqual(value)
      expect((await given.backend.getMany(['large'])).get('large')).toStrictEqual(value)
      expect((await collect(given.backend.read('g')))[0]?.body).toStrictEqual(value)
    })

    it('takes a copy: what the caller changes afterwards, even before the answer, is not stored', async () => {
      const value = { list: [1, 2] }
      const bytes = new Uint8Array([1, 2, 3])
      const work = [
        given.backend.set('own', value),
        given.backend.commit(write('g', 0, { entry: value, inserts: [['new', value]], puts: [['value', value]] })),
        given.backend.putBlob(bytes),
      ] as const
      value.list.push(3)
      bytes[0] = 9
      const [, , digest] = await Promise.all(work)
      value.list.push(4)
      expect(await given.backend.get('own')).toEqual({ list: [1, 2] })
      expect([...(await given.backend.getMany(['value', 'new'])).values()]).toEqual([
        { list: [1, 2] },
        { list: [1, 2] },
      ])
      expect((await collect(given.backend.read('g')))[0]?.body).toEqual({ list: [1, 2] })
      expect(await given.backend.getBlob(digest)).toEqual(new Uint8Array([1, 2, 3]))
    })

    it('hands out copies: what a reader changes is changed for nobody else', async () => {
      await given.backend.set('own', { list: [1] })
      await given.backend.commit(write('g', 0, { entry: { list: [1] }, puts: [['value', { list: [1] }]] }))
      const digest = await given.backend.putBlob(new Uint8Array([1]))
      const spoil = (value: Json | undefined) => (value as { list: number[] }).list.push(2)
      spoil(await given.backend.get('own'))
      spoil((await given.backend.getMany(['value'])).get('value'))
      for await (const [, value] of given.backend.scan('')) spoil(value)
      for await (const [, value] of given.backend.scan('', { own: true })) spoil(value)
      for await (const entry of given.backend.read('g')) spoil(entry.body)
      for await (const entry of given.backend.feed()) spoil(entry.body)
      const bytes = await given.backend.getBlob(digest)
      bytes![0] = 9
      expect(await given.backend.get('own')).toEqual({ list: [1] })
      expect((await given.backend.getMany(['value'])).get('value')).toEqual({ list: [1] })
      expect((await collect(given.backend.read('g')))[0]?.body).toEqual({ list: [1] })
      expect((await collect(given.backend.feed()))[0]?.body).toEqual({ list: [1] })
      expect(await given.backend.getBlob(digest)).toEqual(new Uint8Array([1]))
    })

    it("keeps the caller's own keys apart from a graph's values", async () => {
      await given.backend.set('same', 'own')
      expect(await given.backend.getMany(['same'])).toEqual(new Map())
      expect(await collect(given.backend.scan(''))).toEqual([])
      await given.backend.commit(write('g', 0, { inserts: [['same', 'graph']] }))
      expect(await given.backend.get('same')).toBe('own')
      expect((await given.backend.getMany(['same'])).get('same')).toBe('graph')
      expect(await collect(given.backend.scan(''))).toEqual([['same', 'graph']])
      expect(await collect(given.backend.scan('', { own: true }))).toEqual([['same', 'own']])
      await given.backend.commit(write('g', 0, { deletes: ['same'] }))
      expect(await given.backend.get('same')).toBe('own')
    })

    it('keeps the last of what was set, whole, also when twenty set at once', async () => {
      await given.backend.set('k', 'first')
      await given.backend.set('k', 'second')
      expect(await given.backend.get('k')).toBe('second')
      await Promise.all(Array.from({ length: 20 }, (_, i) => given.backend.set('k', { i, also: i })))
      const { i, also } = (await given.backend.get('k')) as { i: number; also: number }
      expect(i).toBe(also)
    })

    it('has nothing under an own key that was deleted, and lets it be set again', async () => {
      const { backend } = given
      for (const [key, value] of [
        ['a', null],
        ['b', 1],
        ['mplp/c', 2],
      ] as const)
        await backend.set(key, value)
      await backend.commit(write('g', 0, { inserts: [['a', 'graph']] }))
      await backend.delete('a')
      await backend.delete('mplp/c')
      expect([await backend.get('a'), await backend.get('mplp/c')]).toEqual([undefined, undefined])
      expect(await collect(backend.scan('', { own: true }))).toEqual([['b', 1]])
      expect((await backend.getMany(['a'])).get('a')).toBe('graph')
      await backend.set('a', 'again')
      expect(await backend.get('a')).toBe('again')
      expect(await collect(backend.scan('', { own: true }))).toEqual([
        ['a', 'again'],
        ['b', 1],
      ])
    })

    it('deletes what is not there, and what many delete at once', async () => {
      await given.backend.delete('nobody')
      await given.backend.set('k', 1)
      await Promise.all(Array.from({ length: 20 }, () => given.backend.delete('k')))
      expect(await collect(given.backend.scan('', { own: true }))).toEqual([])
    })

    it('leaves the feed silent when an own key is set or deleted', async () => {
      await given.backend.set('k', 1)
      await given.backend.delete('k')
      expect(await collect(given.backend.feed())).toEqual([])
    })

    it('finds many keys at once, and names none twice', async () => {
      const keys = Array.from({ length: 2500 }, (_, i) => `key/${i}`)
      await given.backend.commit(write('g', 0, { puts: keys.map((key, i) => [key, i]) }))
      const found = await given.backend.getMany([...keys, ...keys, 'nobody'])
      expect(found.size).toBe(2500)
      expect(keys.every((key, i) => found.get(key) === i)).toBe(true)
      expect(await given.backend.getMany([])).toEqual(new Map())
    })
  })
}

const ODD_VALUES: readonly (readonly [string, Json])[] = [
  ['null', null],
  ['false', false],
  ['zero', 0],
  ['an empty text', ''],
  ['an empty list', []],
  ['an empty object', {}],
  ['numbers at the edges', [1e308, 5e-324, -1.5, Number.MAX_SAFE_INTEGER, 0.1 + 0.2, 123456789012345680000]],
  ['U+0000 in a text and in a key', { 'a\u0000b': 'c\u0000d' }],
  ['lone surrogates', { '\ud800': 'a\udc00b', list: ['\udfff'] }],
  ['text beyond the BMP', { '🜁': '𝒳 😀 \u{10ffff}' }],
  ['control characters and separators', '\u0001\t\r\n\u2028\u2029\u007f"\\/'],
  ['keys out of order', { z: 1, a: 2, m: { y: 1, b: 2 }, 10: 'ten', 9: 'nine' }],
  [
    'keys that objects are born with',
    JSON.parse('{"__proto__":{"x":1},"constructor":2,"toString":3,"hasOwnProperty":4}'),
  ],
  ['text that looks like something else', ["'; DROP TABLE x; --", '$1', '%s', '\\x00', 'null', '{"json":true}']],
  ['deep nesting', Array.from({ length: 200 }).reduce<Json>((inner) => ({ inner }), 'bottom')],
]
