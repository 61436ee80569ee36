import { describe, expect, it } from 'vitest'
import { InvalidInput, TooLarge } from '../../../src/protocol/errors.ts'
import type { Digest, Json } from '../../../src/protocol/json.ts'
import type { Backend, Write } from '../../../src/vsl/backend.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { append, bodies, collect, everything, type Given, write } from './given.ts'

/** Refused with the path and the rule; nothing is left behind. */
export function badInput(given: Given): void {
  describe('bad input', () => {
    it.for(BAD_NAMES)('refuses %s as a key or a stream, wherever one is asked for', async ([, name]) => {
      for (const [path, call] of namedCalls(given.backend, name)) {
        const error = await call().then(
          () => undefined,
          (error: unknown) => error,
        )
        expect(error, path).toBeInstanceOf(InvalidInput)
        expect((error as InvalidInput).problems[0], path).toMatchObject({ path, rule: 'key' })
      }
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it.for(BAD_VALUES)('refuses %s as a value', async ([, value, path]) => {
      const json = value as Json
      const refused = (work: Promise<unknown>, at: string) =>
        expect(work).rejects.toMatchObject({
          code: 'invalid_input',
          problems: [{ path: `${at}${path}`, rule: 'json' }],
        })
      await refused(given.backend.set('k', json), 'value')
      if (value !== undefined) await refused(given.backend.commit(append('g', 0, json)), 'entry')
      await refused(
        given.backend.commit(
          write('g', 0, {
            inserts: [
              ['a', 1],
              ['k', json],
            ],
          }),
        ),
        'inserts[1]',
      )
      await refused(given.backend.commit(write('g', 0, { puts: [['k', json]] })), 'puts[0]')
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it('takes a member that is undefined for absent', async () => {
      await given.backend.set('k', { a: 1, b: undefined } as unknown as Json)
      expect(JSON.stringify(await given.backend.get('k'))).toBe('{"a":1}')
    })

    it.for(OVERLAPPING)('refuses a key named twice: %s', async ([, parts, path]) => {
      await expect(given.backend.commit(write('g', 0, parts))).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path, rule: 'disjoint', found: 'k' }],
      })
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it.each([-1, 0.5, Number.NaN, 2 ** 53])('refuses %d as a revision', async (expected) => {
      await expect(given.backend.commit(append('g', expected))).rejects.toMatchObject({
        problems: [{ path: 'expected', rule: 'revision' }],
      })
      await expect(collect(given.backend.read('g', { after: expected }))).rejects.toMatchObject({
        problems: [{ path: 'after', rule: 'count' }],
      })
      for (const own of [false, true])
        await expect(collect(given.backend.scan('', { own, limit: expected }))).rejects.toMatchObject({
          problems: [{ path: 'limit', rule: 'count' }],
        })
    })

    it.for(BAD_WRITES)('refuses %s as a write', async ([, bad, path]) => {
      await expect(given.backend.commit(bad as never)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path, rule: 'type' }],
      })
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it.for([
      ['null', null],
      ['a number', 7],
      ['text', 'text'],
    ] as const)('refuses %s for a list or for options', async ([, nothing]) => {
      const { backend } = given
      const refused = (work: Promise<unknown>, path: string) =>
        expect(work).rejects.toMatchObject({ code: 'invalid_input', problems: [{ path, rule: 'type' }] })
      await refused(backend.getMany(nothing as never), 'keys')
      await refused(collect(backend.scan('', nothing as never)), 'from')
      await refused(collect(backend.read('g', nothing as never)), 'from')
      await refused(collect(backend.feed(nothing as never)), 'from')
      await refused(collect(backend.read('g', { signal: nothing as never })), 'signal')
      await refused(collect(backend.feed({ signal: nothing as never })), 'signal')
      await refused(backend.acquire('g', nothing as never, 1000), 'holder')
      await refused(backend.renew(nothing as never), 'lease')
      await refused(backend.release(nothing as never), 'lease')
    })

    it.for([
      ['holder.id', { id: true }],
      ['holder.boot', { boot: true }],
      ['holder.pid', { pid: true }],
      ['holder.started', { started: null }],
    ] as const)('refuses a holder by its %s, to acquire, to renew and to release', async ([path, odd]) => {
      const { backend } = given
      const holder = { ...thisHolder('one'), ...odd } as never
      const refused = { code: 'invalid_input', problems: [{ path }] }
      await expect(backend.acquire('g', holder, 1000)).rejects.toMatchObject(refused)
      const lease = { stream: 'g', holder, token: 1, ttlMs: 1000 }
      await expect(backend.renew(lease)).rejects.toMatchObject(refused)
      await expect(backend.release(lease)).rejects.toMatchObject(refused)
    })

    it.for([
      ['stream', { stream: true }],
      ['token', { token: true }],
      ['token', { token: '1' }],
      ['ttlMs', { ttlMs: true }],
      ['ttlMs', { ttlMs: 0 }],
    ] as const)('refuses a lease by its %s, and keeps the one that is held', async ([path, odd]) => {
      const { backend } = given
      const lease = await backend.acquire('g', thisHolder('one'), 60_000)
      const refused = { code: 'invalid_input', problems: [{ path }] }
      await expect(backend.renew({ ...lease, ...odd } as never)).rejects.toMatchObject(refused)
      await expect(backend.release({ ...lease, ...odd } as never)).rejects.toMatchObject(refused)
      expect(await backend.renew(lease!)).toBe(true)
    })

    it('refuses what is nested too deeply to be written, also of a write that was checked', async () => {
      let entry: Json = 1
      for (let i = 0; i < 100_000; i++) entry = [entry]
      const kinds = isWritable(entry) ? [{}] : [{}, { checked: true as const }] // Node 26 writes however deep it is
      for (const checked of kinds)
        await expect(given.backend.commit({ ...append('g', 0), ...checked, entry })).rejects.toMatchObject({
          problems: [{ path: 'entry', rule: 'json' }],
        })
    })

    it('refuses a position that is not of its making', async () => {
      await given.backend.commit(append('g', 0))
      for (const after of ['', 'yesterday', '-1', "'; --", 7 as never, ['1'] as never])
        await expect(collect(given.backend.feed({ after })), String(after)).rejects.toMatchObject({
          code: 'invalid_input',
          problems: [{ path: 'after', rule: 'position' }],
        })
    })

    it('refuses a position that it has not come to, whether it is followed or not', async () => {
      await given.backend.commit(append('g', 0))
      const [entry] = await collect(given.backend.feed())
      const last = entry!.position
      expect(await collect(given.backend.feed({ after: last }))).toEqual([])
      for (const follow of [false, true])
        await expect(collect(given.backend.feed({ after: above(last), follow }))).rejects.toMatchObject({
          code: 'invalid_input',
          problems: [{ path: 'after', rule: 'position', found: above(last) }],
        })
      await given.backend.commit(append('g', 1))
      expect(bodies(await collect(given.backend.feed({ after: last })))).toEqual([{ n: 2 }])
    })

    it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('refuses a lease of %d ms', async (ttlMs) => {
      await expect(given.backend.acquire('g', thisHolder('one'), ttlMs)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path: 'ttlMs' }],
      })
      expect(await given.backend.head('g')).toEqual({ revision: 0, token: 0 })
    })

    it.for([
      ['nothing', undefined],
      ['text', 'text'],
      ['a list', [1, 2]],
      ['numbers of two bytes', new Uint16Array([1, 256])],
    ] as const)('refuses %s as the bytes of a blob', async ([, bytes]) => {
      await expect(given.backend.putBlob(bytes as never)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path: 'bytes', rule: 'bytes' }],
      })
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it.each([
      '',
      'x',
      'sha256:',
      `sha256:${'A'.repeat(64)}`,
      `sha1:${'a'.repeat(40)}`,
      `sha256:${'a'.repeat(64)}/../x`,
    ])('refuses %j as a digest', async (digest) => {
      await expect(given.backend.getBlob(digest as Digest)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path: 'digest', rule: 'digest' }],
      })
    })

    it.for([
      ['no list', 'x', 0, 'digests'],
      ['what is no digest', ['x'], 0, 'digest'],
      ['a time below 0', [], -1, 'unputMs'],
      ['a time that is none', [], Number.NaN, 'unputMs'],
    ] as const)('refuses %s for blobs to forget', async ([, digests, unputMs, path]) => {
      await expect(given.backend.forgetBlobs(digests as never, unputMs)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path }],
      })
    })

    it('refuses an entry above 32 MiB, with its size and the limit, and writes nothing of the commit', async () => {
      const entry = 'x'.repeat(32 * 1024 * 1024)
      const error = await given.backend.commit(write('g', 0, { entry, puts: [['k', 1]] })).catch((error) => error)
      expect(error).toBeInstanceOf(TooLarge)
      expect(error.bytes).toBeGreaterThan(error.limit)
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
      await given.backend.commit(append('g', 0))
    })

    it('refuses a value above 32 MiB in the same way', async () => {
      const value = 'é'.repeat(16 * 1024 * 1024)
      const refused = { code: 'too_large', limit: 2 ** 25, bytes: 2 ** 25 + 2 }
      await expect(given.backend.set('k', value)).rejects.toMatchObject(refused)
      await expect(given.backend.commit(write('g', 0, { puts: [['k', value]] }))).rejects.toMatchObject(refused)
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })

    it('refuses a blob above 256 MiB', async () => {
      const huge = new Uint8Array(256 * 1024 * 1024 + 1) // nobody touches it, so it takes no room
      await expect(given.backend.putBlob(huge)).rejects.toMatchObject({ code: 'too_large', bytes: huge.length })
      expect(await everything(given.backend, ['g'])).toEqual(EMPTY)
    })
  })
}

const EMPTY = { values: [], own: [], feed: [], heads: [{ revision: 0, token: 0 }], blobs: [] }

const BAD_NAMES: readonly (readonly [string, string])[] = [
  ['an empty text', ''],
  ['1,025 bytes', 'x'.repeat(1025)],
  ['1,026 bytes in 342 characters', '中'.repeat(342)],
  ['a lone surrogate', 'a\ud800b'],
  ['U+0000', 'a\u0000b'],
  ['what is not text', 7 as unknown as string],
]

const namedCalls = (backend: Backend, name: string): [string, () => Promise<unknown>][] => [
  ['key', () => backend.get(name)],
  ['key', () => backend.set(name, 1)],
  ['key', () => backend.delete(name)],
  ['keys[1]', () => backend.getMany(['fine', name])],
  ['stream', () => backend.commit(append(name, 0))],
  [
    'inserts[1]',
    () =>
      backend.commit(
        write('g', 0, {
          entry: 1,
          inserts: [
            ['fine', 1],
            [name, 1],
          ],
        }),
      ),
  ],
  ['puts[0]', () => backend.commit(write('g', 0, { entry: 1, puts: [[name, 1]] }))],
  ['deletes[0]', () => backend.commit(write('g', 0, { entry: 1, deletes: [name] }))],
  ['stream', () => backend.head(name)],
  ['stream', () => collect(backend.read(name))],
  ['stream', () => backend.acquire(name, thisHolder('one'), 1000)],
  ...(name === '' ? [] : ([['prefix', () => collect(backend.scan(name))]] as [string, () => Promise<unknown>][])),
]

const circular: { self?: unknown } = {}
circular.self = circular
const BAD_VALUES: readonly (readonly [string, unknown, string])[] = [
  ['undefined', undefined, ''],
  ['a function', () => 1, ''],
  ['a symbol', Symbol('s'), ''],
  ['a bigint', { deep: [1, 2n] }, '.deep[1]'],
  ['NaN', { n: Number.NaN }, '.n'],
  ['infinity', [Number.POSITIVE_INFINITY], '[0]'],
  ['undefined in a list', [1, undefined], '[1]'],
  ['a date', { at: new Date(0) }, '.at'],
  ['a map', new Map([['k', 1]]), ''],
  ['bytes', { bytes: new Uint8Array([1]) }, '.bytes'],
  ['a method', { toJSON: () => 'changed' }, '.toJSON'],
  ['an error', { error: new Error('lost') }, '.error'],
  ['a value that contains itself', circular, ''],
]

const BAD_WRITES: readonly (readonly [string, unknown, string])[] = [
  ['nothing', undefined, 'write'],
  ['a list', [], 'write'],
  ['inserts that are no list', { ...write('g', 0, { entry: 1 }), inserts: undefined }, 'inserts'],
  ['puts that are no list', { ...write('g', 0, { entry: 1 }), puts: { k: 1 } }, 'puts'],
  ['deletes that are no list', { ...write('g', 0, { entry: 1 }), deletes: 'k' }, 'deletes'],
  ['an insert that is no pair', { ...write('g', 0, { entry: 1 }), inserts: [null] }, 'inserts[0]'],
  ['a put that is no pair', { ...write('g', 0, { entry: 1 }), puts: ['k'] }, 'puts[0]'],
  ['both an entry and forgetting', write('g', 0, { entry: 1, forget: true }), 'forget'],
  ['forgetting that is not true', { ...write('g', 0), forget: 1 }, 'forget'],
]

const OVERLAPPING: readonly (readonly [string, Partial<Write>, string])[] = [
  [
    'two inserts',
    {
      inserts: [
        ['k', 1],
        ['k', 2],
      ],
    },
    'inserts[1]',
  ],
  [
    'two puts',
    {
      puts: [
        ['k', 1],
        ['k', 2],
      ],
    },
    'puts[1]',
  ],
  ['two deletes', { deletes: ['k', 'k'] }, 'deletes[1]'],
  ['insert and put', { inserts: [['k', 1]], puts: [['k', 2]] }, 'puts[0]'],
  ['put and delete', { puts: [['k', 1]], deletes: ['k'] }, 'deletes[0]'],
  ['insert and delete', { inserts: [['k', 1]], deletes: ['k'] }, 'deletes[0]'],
]

/** The next text of the same length: what this store has not come to, or nothing that it would ever say. */
const above = (position: string): string =>
  position.slice(0, -1) + String.fromCharCode(position.charCodeAt(position.length - 1) + 1)

function isWritable(value: Json): boolean {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}
