import { createCipheriv, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Corrupt, InvalidInput, OutcomeUnknown, Refused, Unavailable } from '../../src/protocol/errors.ts'
import { type Digest, digestOf, type Json } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { copyStore } from '../../src/vsl/copy.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { isSealed } from '../../src/vsl/encrypted-keys.ts'
import { type EncryptionKey, keyring } from '../../src/vsl/keyring.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { postgresBackend } from '../../src/vsl/postgres.ts'
import { redisBackend } from '../../src/vsl/redis.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { append, collect, everything, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { type Call, faultyBackend } from '../support/faulty-backend.ts'
import { freshPrefix, freshSchema, itNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const key = (id: string) => ({ id, key: randomBytes(32) })

backendContract(
  'encrypted memory',
  () => {
    const clock = manualClock()
    const keys = [key('k1')]
    return { open: () => withEncryption(memoryBackend({ clock }), keys), elapse: clock.advance }
  },
  { scanKeys: 20_000 },
)

backendContract(
  'encrypted SQLite',
  () => {
    let passed = 0
    const clock = { ...systemClock, now: () => systemClock.now() + passed }
    const keys = [key('new'), key('old')]
    const path = join(tempFolder(), 'state.db')
    return {
      open: async () => withEncryption(await sqliteBackend({ path, clock }), keys),
      async elapse(ms) {
        passed += ms
      },
    }
  },
  { scanKeys: 2000 },
)

describe('an encrypted store', () => {
  const SECRET = 'the launch code'

  it('shows the inner store nothing of what it keeps', async () => {
    const inner = memoryBackend()
    const store = await withEncryption(inner, [key('k1')])
    await store.set('own', SECRET)
    await store.commit(write('g', 0, { entry: { SECRET }, inserts: [['new', SECRET]], puts: [['put', [SECRET]]] }))
    const digest = await store.putBlob(Buffer.from(SECRET))
    const seen = JSON.stringify(await everything(inner, ['g']))
    expect(seen).not.toContain(SECRET)
    expect(seen).not.toContain(Buffer.from(SECRET).toString('base64').slice(0, 12))
    expect(seen).not.toContain(digest.slice(7))
    for await (const name of inner.blobs())
      expect(Buffer.from((await inner.getBlob(name))!).includes(SECRET)).toBe(false)
    expect(await inner.getBlob(digest)).toBeUndefined()
  })

  it('seals the same text differently each time', async () => {
    const inner = memoryBackend()
    const store = await withEncryption(inner, [key('k1')])
    await store.commit(
      write('g', 0, {
        puts: [
          ['a', SECRET],
          ['b', SECRET],
        ],
      }),
    )
    const [a, b] = [...(await inner.getMany(['a', 'b'])).values()] as { iv: string; data: string }[]
    expect(a!.iv).not.toBe(b!.iv)
    expect(a!.data).not.toBe(b!.data)
  })

  it('refuses values, own values and entries that were moved to another place', async () => {
    const inner = memoryBackend()
    const store = await withEncryption(inner, [key('k1')])
    await store.commit(
      write('g', 0, {
        entry: 1,
        puts: [
          ['a', 1],
          ['b', 2],
        ],
      }),
    )
    await store.commit(append('g', 1))
    await store.set('own', 1)
    const stored = await inner.getMany(['a', 'b'])
    await inner.commit(
      write('x', 0, {
        puts: [
          ['a', stored.get('b')!],
          ['own', (await inner.get('own'))!],
        ],
      }),
    )
    await expect(store.getMany(['a'])).rejects.toThrow(Corrupt)
    await expect(store.getMany(['own'])).rejects.toThrow(Corrupt)
    await expect(collect(store.scan(''))).rejects.toThrow(Corrupt)
    await inner.set('own', stored.get('a')!)
    await expect(store.get('own')).rejects.toThrow(Corrupt)
    const [first] = await collect(inner.read('g'))
    await inner.commit(append('g', 2, first!.body)) // an old entry told again
    await inner.commit(append('h', 0, first!.body)) // an entry of another stream
    await expect(collect(store.read('g'))).rejects.toThrow(Corrupt)
    await expect(collect(store.read('h'))).rejects.toThrow(Corrupt)
    expect(await collect(store.read('g'), 2)).toHaveLength(2)
  })

  it('refuses blobs that were exchanged, and what was changed or never sealed', async () => {
    const inner = memoryBackend()
    const store = await withEncryption(inner, [key('k1')])
    const [a, b] = [await store.putBlob(Buffer.from('a')), await store.putBlob(Buffer.from('b'))]
    const names = (await collect(inner.scan('mplp-sealed/blob/', { own: true }))) as [string, Json][]
    await inner.set(names[0]![0], names[1]![1])
    await inner.set(names[1]![0], names[0]![1])
    await expect(store.getBlob(a)).rejects.toThrow(Corrupt)
    await expect(store.getBlob(b)).rejects.toThrow(Corrupt)

    await store.commit(write('g', 0, { puts: [['k', SECRET]] }))
    const sealed = (await inner.getMany(['k'])).get('k') as { data: string }
    const bent = Buffer.from(sealed.data, 'base64')
    bent[0]! ^= 1
    for (const value of [
      { ...sealed, data: bent.toString('base64') },
      { ...sealed, data: '' },
      { ...sealed, iv: '' },
      { ...sealed, key: 'k0' },
      { ...sealed, key: 'k'.repeat(65) },
      { ...sealed, key: 7 },
      SECRET,
      null,
    ]) {
      await inner.commit(write('g', 0, { puts: [['k', value as Json]] }))
      await expect(store.getMany(['k']), JSON.stringify(value)).rejects.toThrow(Corrupt)
    }
  })

  it('refuses a blob of which only a part is there', async () => {
    const inner = memoryBackend()
    const keys = [key('k1')]
    const digest = await (await withEncryption(inner, keys)).putBlob(Buffer.from(SECRET))
    const [name] = await collect(inner.blobs())
    const whole = (await inner.getBlob(name!))!
    for (let length = 0; length < whole.length; length++) {
      const store = await withEncryption({ ...inner, getBlob: async () => whole.subarray(0, length) }, keys)
      await expect(store.getBlob(digest), `${length} bytes`).rejects.toThrow(Corrupt)
    }
  })

  it('names the key that it lacks for what another process has sealed; where no such key ever was, that is damage', async () => {
    const inner = memoryBackend()
    const [old, fresh] = [key('2025'), key('2026')]
    const store = await withEncryption(inner, [old])
    const other = await withEncryption(inner, [fresh, old])
    await other.commit(write('g', 0, { entry: 1, puts: [['k', SECRET]] }))
    await other.set('own', SECRET)
    await other.putBlob(Buffer.from(SECRET))
    const asked = {
      getMany: () => store.getMany(['k']),
      scan: () => collect(store.scan('')),
      get: () => store.get('own'),
      own: () => collect(store.scan('', { own: true })),
      read: () => collect(store.read('g')),
      feed: () => collect(store.feed()),
      blobs: () => collect(store.blobs()),
    }
    for (const [what, ask] of Object.entries(asked))
      await expect(ask(), what).rejects.toThrow('key 2026, which was not given; add that key')
    await store.commit(write('h', 0, { puts: [['l', 1]] }))
    const told: string[] = []
    const passOver = (id: string) => void told.push(id)
    expect(await collect(store.scan('', { passOver }))).toEqual([['l', 1]])
    expect(told).toEqual(['2026'])
    await store.commit(write('h', 0, { deletes: ['l'] }))
    await inner.delete('mplp-sealed/key/2026')
    for (const [what, ask] of Object.entries(asked)) await expect(ask(), what).rejects.toThrow(Corrupt)
    await expect(collect(store.scan('', { passOver }))).rejects.toThrow(Corrupt)
    await expect(() =>
      store
        .scan('', { passOver: 'all' as never })
        [Symbol.asyncIterator]()
        .next(),
    ).rejects.toThrow('passOver')
  })

  it('leaves nobody in doubt who may ask again: opening it and a blob fail as if nothing was written', async () => {
    const keys = [key('k1')]
    for (const fault of ['lose-reply', 'lose-call'] as const) {
      const inner = memoryBackend()
      let failing = true
      const choose = ({ method }: Call) => (failing && method === 'set' ? fault : undefined)
      const faulty = faultyBackend(inner, choose, manualClock())
      await expect(withEncryption(faulty, keys)).rejects.toThrow(Unavailable)
      failing = false
      const store = await withEncryption(faulty, keys)
      failing = true
      await expect(store.putBlob(Buffer.from(SECRET))).rejects.toThrow(Unavailable)
      await expect(store.set('own', 1)).rejects.toThrow(OutcomeUnknown)
      failing = false
      const digest = await store.putBlob(Buffer.from(SECRET))
      expect(await collect(store.blobs())).toEqual([digest])
      expect(Buffer.from((await store.getBlob(digest))!).toString()).toBe(SECRET)
    }
  })

  it('opens with several keys, and seals with the first', async () => {
    const inner = memoryBackend()
    const [old, fresh] = [key('2025'), key('2026')]
    const before = await withEncryption(inner, [old])
    await before.commit(write('g', 0, { entry: 1, puts: [['a', 'old']] }))
    const digest = await before.putBlob(Buffer.from('blob'))
    const after = await withEncryption(inner, [fresh, old])
    await after.commit(write('g', 1, { entry: 2, puts: [['b', 'new']] }))
    expect(await collect(after.scan(''))).toEqual([
      ['a', 'old'],
      ['b', 'new'],
    ])
    expect(await collect(after.read('g'))).toHaveLength(2)
    expect(await after.putBlob(Buffer.from('blob'))).toBe(digest)
    expect(await collect(after.blobs())).toEqual([digest])
    expect(Buffer.from((await after.getBlob(digest))!).toString()).toBe('blob')
    const keys = [...(await inner.getMany(['a', 'b'])).values()].map((value) => (value as { key: string }).key)
    expect(keys).toEqual(['2025', '2026'])
  })

  it('tells once of a blob that two processes have sealed while keys were changed, each with its own', async () => {
    const inner = memoryBackend()
    const [old, fresh] = [key('2025'), key('2026')]
    const before = await withEncryption(inner, [old])
    const after = await withEncryption(inner, [fresh, old])
    const digest = await after.putBlob(Buffer.from('blob'))
    expect(await before.putBlob(Buffer.from('blob'))).toBe(digest) // it cannot know that it is there
    for (const keys of [
      [fresh, old],
      [old, fresh],
    ])
      expect(await collect((await withEncryption(inner, keys)).blobs())).toEqual([digest])
    expect(await copyStore(after, memoryBackend(), { verify: true })).toMatchObject({ blobs: 1 })
  })

  it('is not opened with a wrong key, without one of its keys, or if it was never encrypted', async () => {
    const inner = memoryBackend()
    const [old, fresh] = [key('old'), key('new')]
    await (await withEncryption(inner, [old])).set('k', 1)
    await withEncryption(inner, [fresh, old])
    const before = await everything(inner, [])
    await expect(withEncryption(inner, [key('old'), fresh])).rejects.toThrow(Refused)
    await expect(withEncryption(inner, [fresh])).rejects.toThrow(Refused)
    await expect(withEncryption(inner, [key('third')])).rejects.toThrow(Refused)
    expect(await everything(inner, [])).toEqual(before)
    for (const fill of [
      (plain: Backend) => plain.set('k', 1),
      (plain: Backend) => plain.commit(append('g', 0)),
      (plain: Backend) => plain.commit(write('g', 0, { puts: [['k', 1]] })),
      (plain: Backend) => plain.putBlob(new Uint8Array([1])),
    ]) {
      const plain = memoryBackend()
      await fill(plain)
      await expect(withEncryption(plain, [old])).rejects.toThrow(Refused)
    }
  })

  it('is opened by two processes at once while it is new, whenever the other one comes', async () => {
    const keys = [key('k1')]
    for (let heldUp = 0, calls = 1; heldUp < calls; heldUp++) {
      const inner = memoryBackend()
      const sleep = async () => {
        const other = await withEncryption(inner, keys)
        await other.set('theirs', 1)
      }
      const slow = faultyBackend(inner, ({ index }) => (index === heldUp ? 1 : undefined), { sleep })
      const store = await withEncryption(slow, keys)
      calls = slow.calls.length
      expect(await store.get('theirs')).toBe(1)
    }
  })

  it('is taken by one of two processes that open it at once with different keys, whenever the other one comes', async () => {
    const old = key('old')
    const pairs = {
      'of different names': [[key('k1')], [key('k2')]],
      'of one name': [[key('k1')], [key('k1')]],
      'that are new to it': [
        [key('2026'), old],
        [key('2027'), old],
      ],
    }
    for (const [what, [ours, theirs]] of Object.entries(pairs))
      for (let heldUp = 0; ; heldUp++) {
        const inner = memoryBackend()
        if (ours!.includes(old)) await (await withEncryption(inner, [old])).set('k', 1)
        let other: PromiseSettledResult<Backend> | undefined
        const sleep = async () => {
          other = (await Promise.allSettled([withEncryption(inner, theirs!)]))[0]
        }
        const slow = faultyBackend(inner, ({ index }) => (index === heldUp ? 1 : undefined), { sleep })
        const [our] = await Promise.allSettled([withEncryption(slow, ours!)])
        if (slow.calls.length <= heldUp) break
        const refused = [our, other!].flatMap((opened) => (opened.status === 'rejected' ? [opened.reason] : []))
        expect(refused, `${what}, at call ${heldUp}`).toEqual([expect.any(Refused)])
        const winner = our.status === 'fulfilled' ? ours! : theirs!
        await (await withEncryption(inner, winner)).set('k', 2) // and is let in again
      }
  })

  it('goes on with an opening that was cut off, and is no plain store after it', async () => {
    const keys = [key('k1')]
    const inner = memoryBackend()
    const cut = faultyBackend(inner, ({ method }) => (method === 'set' ? 'lose-call' : undefined), manualClock())
    await expect(withEncryption(cut, keys)).rejects.toThrow(Unavailable)
    expect(await isSealed(inner)).toBe(true)
    await expect(withEncryption(inner, [key('k2')])).rejects.toThrow('key k1')
    const store = await withEncryption(inner, keys)
    await store.set('k', 1)
    expect(await collect(inner.scan(''))).toEqual([])
    expect(await store.get('k')).toBe(1)
  })

  it('shows nothing of an opening that was cut off at its very end, and can be copied', async () => {
    const keys = [key('k1')]
    const inner = memoryBackend()
    const isLast = ({ method, nth }: Call) => method === 'commit' && nth > 0
    const cut = faultyBackend(inner, (call) => (isLast(call) ? 'lose-call' : undefined), manualClock())
    await expect(withEncryption(cut, keys)).rejects.toThrow(Unavailable)
    expect(await collect(inner.scan(''))).toHaveLength(1)
    const store = await withEncryption(inner, keys)
    await copyStore(memoryBackend(), store)
    await store.commit(write('g', 0, { puts: [['z', 1]] }))
    expect(await collect(store.scan('', { limit: 1 }))).toEqual([['z', 1]])
    const plain = memoryBackend()
    await copyStore(store, plain, { verify: true })
    expect(await collect(plain.scan(''))).toEqual([['z', 1]])
    expect(await isSealed(plain)).toBe(false)
  })

  it('takes keys as bytes or base64, and refuses what is none', async () => {
    const bytes = randomBytes(32)
    const inner = memoryBackend()
    await (await withEncryption(inner, [{ id: 'k', key: bytes }])).set('k', 1)
    expect(await (await withEncryption(inner, [{ id: 'k', key: bytes.toString('base64') }])).get('k')).toBe(1)
    for (const [keys, path] of [
      [[], ''],
      [[{ id: '', key: bytes }], '[0].id'],
      [[{ id: 'k', key: bytes.subarray(1) }], '[0].key'],
      [[{ id: 'k', key: 'short' }], '[0].key'],
      [[{ id: 'k', key: 7 as never }], '[0].key'],
      [[{ id: 'k', key: {} as never }], '[0].key'],
      [[null as never], '[0].id'],
      [
        [
          { id: 'k', key: bytes },
          { id: 'k', key: bytes },
        ],
        '[1].id',
      ],
    ] as const)
      await expect(withEncryption(memoryBackend(), keys)).rejects.toMatchObject({
        code: 'invalid_input',
        problems: [{ path }],
      })
  })

  it('keeps its own keys to itself', async () => {
    const store = await withEncryption(memoryBackend(), [key('k1')])
    await store.putBlob(new Uint8Array([1]))
    for (const name of ['a', 'mplp-sealed', 'mplp-sealed0', 'z']) await store.set(name, name)
    expect((await collect(store.scan('', { own: true }))).map(([k]) => k)).toEqual([
      'a',
      'mplp-sealed',
      'mplp-sealed0',
      'z',
    ])
    expect(await collect(store.scan('', { own: true, limit: 3 }))).toHaveLength(3)
    await expect(store.set('mplp-sealed/key/k1', 1)).rejects.toThrow(InvalidInput)
    await expect(store.get('mplp-sealed/key/k1')).rejects.toThrow(InvalidInput)
    expect(digestOf('')).toBe(await store.putBlob(new Uint8Array()))
  })
})

describe('a blob of an encrypted store', () => {
  const BYTES = Buffer.from('the launch code')
  const DIGEST = digestOf(BYTES)
  const textOf = async (store: Backend) => {
    const bytes = await store.getBlob(DIGEST)
    return bytes && Buffer.from(bytes).toString()
  }
  const fresh = () => {
    const clock = manualClock()
    const keys = [key('k1')]
    const inner = memoryBackend({ clock })
    return { clock, inner, keys, open: (store: Backend = inner) => withEncryption(store, keys) }
  }
  const takeAllAway = async (inner: Backend) => inner.forgetBlobs(await collect(inner.blobs()), 0)

  it('is put anew in the inner store by everybody who puts it, whoever was the first', async () => {
    const { clock, inner, open } = fresh()
    const [one, other] = [await open(), await open()]
    await one.putBlob(BYTES)
    const [lying] = await collect(inner.blobs())
    await clock.advance(2000)
    await other.putBlob(BYTES)
    expect(await inner.forgetBlobs([lying!], 1000)).toEqual([])
    expect(await one.forgetBlobs([DIGEST], 1000)).toEqual([])
    await clock.advance(1000)
    expect(await one.forgetBlobs([DIGEST], 1000)).toEqual([DIGEST])
  })

  it('is none where only its name is left, and can be put again', async () => {
    const { inner, open } = fresh()
    const store = await open()
    await store.putBlob(BYTES)
    await takeAllAway(inner)
    expect(await collect(inner.scan('mplp-sealed/blob/', { own: true }))).toHaveLength(1)
    expect(await textOf(store)).toBeUndefined()
    expect(await collect(store.blobs())).toEqual([])
    expect(await store.forgetBlobs([DIGEST], 0)).toEqual([])
    await store.putBlob(BYTES)
    expect(await textOf(await open())).toBe('the launch code')
    expect(await collect(store.blobs())).toEqual([DIGEST])
    expect(await collect(inner.scan('mplp-sealed/blob/', { own: true }))).toHaveLength(1)
  })

  it('lies in the inner store once, however many put it at once, and not at all once it is taken away', async () => {
    const { inner, open } = fresh()
    const stores = [await open(), await open()]
    await Promise.all(Array.from({ length: 20 }, (_, i) => stores[i % 2]!.putBlob(BYTES)))
    expect(await collect(inner.blobs())).toHaveLength(1)
    expect(await stores[0]!.forgetBlobs([DIGEST], 0)).toEqual([DIGEST])
    expect(await collect(inner.blobs())).toEqual([])
  })

  async function callsOfPutting(): Promise<number> {
    const { inner, open } = fresh()
    const counted = faultyBackend(inner, () => undefined, manualClock())
    const store = await open(counted)
    const opening = counted.calls.length
    await store.putBlob(BYTES)
    return counted.calls.length - opening
  }

  it('leaves no bytes that could never be taken away, wherever a putting of it is cut off', async () => {
    for (let at = 0, calls = await callsOfPutting(); at < calls; at++)
      for (const fault of ['lose-call', 'lose-reply'] as const) {
        const { inner, open } = fresh()
        let call = Number.NEGATIVE_INFINITY
        const store = await open(faultyBackend(inner, () => (call++ === at ? fault : undefined), manualClock()))
        call = 0
        await expect(store.putBlob(BYTES)).rejects.toThrow(Unavailable)
        await store.forgetBlobs([DIGEST], 0)
        expect(await collect(inner.blobs()), `${fault} at call ${at}`).toEqual([])
      }
  })

  it('stays with its key while keys are changed', async () => {
    const { inner, clock } = fresh()
    const [old, next] = [key('2025'), key('2026')]
    const before = await withEncryption(inner, [old])
    const after = await withEncryption(inner, [next, old])
    await before.putBlob(BYTES)
    await clock.advance(2000)
    await after.putBlob(BYTES)
    expect(await collect(inner.blobs())).toHaveLength(1)
    expect(await before.forgetBlobs([DIGEST], 1000)).toEqual([])
    expect(await textOf(before)).toBe('the launch code')
    await takeAllAway(inner)
    await after.putBlob(BYTES)
    await expect(textOf(before), 'sealed with the first key').resolves.toBeUndefined()
    expect(await textOf(after)).toBe('the launch code')
  })

  it('of an earlier release stays with its key too when it moves', async () => {
    const { inner } = fresh()
    const [old, next] = [key('2025'), key('2026')]
    const before = await withEncryption(inner, [old])
    await putAsBefore(inner, old, BYTES)
    await (await withEncryption(inner, [next, old])).putBlob(BYTES)
    expect(await textOf(before)).toBe('the launch code')
    expect(await collect(before.blobs())).toEqual([DIGEST])
    expect(await collect(inner.blobs())).toHaveLength(1)
  })

  it('is taken away when both that two keys have sealed are old', async () => {
    const { inner, clock } = fresh()
    const [old, next] = [key('2025'), key('2026')]
    const before = await withEncryption(inner, [old])
    const after = await withEncryption(inner, [next, old])
    await after.putBlob(BYTES)
    await before.putBlob(BYTES) // it cannot know that it is there
    expect(await collect(inner.blobs())).toHaveLength(2)
    await clock.advance(2000)
    await before.putBlob(BYTES)
    expect(await after.forgetBlobs([DIGEST], 1000)).toEqual([])
    expect(await collect(after.blobs())).toEqual([DIGEST])
    expect([await textOf(before), await textOf(after)]).toEqual(['the launch code', 'the launch code'])
    await clock.advance(1000)
    expect(await after.forgetBlobs([DIGEST], 1000)).toEqual([DIGEST])
    expect(await collect(after.blobs())).toEqual([])
    expect(await collect(inner.blobs())).toEqual([])
    expect([await textOf(before), await textOf(after)]).toEqual([undefined, undefined])
  })

  it('of an earlier release is read, is taken away, and moves when it is put again', async () => {
    const { inner, keys, open } = fresh()
    const store = await open()
    await putAsBefore(inner, keys[0]!, BYTES)
    expect(await textOf(store)).toBe('the launch code')
    expect(await collect(store.blobs())).toEqual([DIGEST])
    expect(await store.forgetBlobs([DIGEST], 0)).toEqual([DIGEST])
    expect(await collect(inner.blobs())).toEqual([])

    await putAsBefore(inner, keys[0]!, BYTES)
    const [lay] = await collect(inner.blobs())
    await store.putBlob(BYTES)
    const lying = await collect(inner.blobs())
    expect(lying).toEqual([expect.not.stringContaining(lay!)])
    expect(await textOf(await open())).toBe('the launch code')
    await store.putBlob(BYTES)
    expect(await collect(inner.blobs())).toEqual(lying)
  })

  it('is found also while it moves', async () => {
    for (const [method, ask] of [
      ['getBlob', textOf],
      ['scan', (store: Backend) => collect(store.blobs())],
    ] as const) {
      const { inner, keys, open } = fresh()
      const other = await open()
      await putAsBefore(inner, keys[0]!, BYTES)
      let isOpen = false
      const slow = faultyBackend(inner, (call) => (isOpen && call.method === method ? 1 : undefined), {
        sleep: async () => void (await other.putBlob(BYTES)),
      })
      const store = await open(slow)
      isOpen = true
      expect(await ask(store), method).toEqual(method === 'scan' ? [DIGEST] : 'the launch code')
    }
  })

  /** How the blob is before two processes have to do with it at once. */
  const BEFORE: Readonly<Record<string, (inner: Backend, store: Backend, key: EncryptionKey) => Promise<unknown>>> = {
    'that is not there': async () => {},
    'that is there': (_, store) => store.putBlob(BYTES),
    'of which only the name is left': async (inner, store) => {
      await store.putBlob(BYTES)
      await takeAllAway(inner)
    },
    'of an earlier release': (inner, _, key) => putAsBefore(inner, key, BYTES),
    'of an earlier release, of which only the name is left': async (inner, _, key) => {
      await putAsBefore(inner, key, BYTES)
      await takeAllAway(inner)
    },
  }
  type Act = (store: Backend) => Promise<unknown>
  const puts: Act = (store) => store.putBlob(BYTES)
  const forgets: Act = (store) => store.forgetBlobs([DIGEST], 1000)

  it.for([
    ['who puts it while another takes it away', puts, forgets],
    ['who puts it while another puts it', puts, puts],
    [
      'who puts it while another takes it away and a third puts it',
      puts,
      (store: Backend) => forgets(store).then(() => puts(store)),
    ],
    ['who puts it while another puts it and is slow with taking it away', forgets, puts],
  ] as const)('is there for everybody %s, whenever the other one comes', async ([, slowly, meanwhile]) => {
    for (const [what, before] of Object.entries(BEFORE))
      for (let heldUp = 0; ; heldUp++) {
        const { clock, inner, keys, open } = fresh()
        const other = await open()
        await before(inner, other, keys[0]!)
        await clock.advance(2000)
        let calls = Number.NEGATIVE_INFINITY
        const slow = faultyBackend(inner, () => (calls++ === heldUp ? 1 : undefined), {
          sleep: async () => {
            if (meanwhile !== forgets) await clock.advance(2000) // what the slow one did before counts no more
            await meanwhile(other)
          },
        })
        const store = await open(slow)
        calls = 0
        await slowly(store)
        if (calls <= heldUp) break
        const when = `${what}, at call ${heldUp}`
        expect(await textOf(other), when).toBe('the launch code')
        expect(await forgets(other), when).toEqual([])
        expect(await textOf(store), when).toBe('the launch code')
        await clock.advance(1000)
        await forgets(other)
        expect(await collect(inner.blobs()), when).toEqual([])
      }
  })
})

/** As releases before the forgetting of blobs did it: sealed differently each time. */
async function putAsBefore(inner: Backend, given: EncryptionKey, bytes: Uint8Array): Promise<void> {
  const digest = digestOf(bytes)
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(given.key), iv)
  cipher.setAAD(Buffer.from(JSON.stringify(['blob', digest])))
  const sealed = [cipher.update(bytes), cipher.final(), cipher.getAuthTag()]
  const id = Buffer.from(given.id)
  const head = Buffer.concat([Buffer.from('mplp sealed 1\n'), Buffer.from([id.length]), id, iv])
  const lying: Digest = await inner.putBlob(Buffer.concat([head, ...sealed]))
  const ring = keyring([given])
  const name = `mplp-sealed/blob/${given.id}/${ring.hiddenNames(digest)[0]!.name}`
  await inner.set(name, ring.seal(['blob name', name], JSON.stringify({ digest, inner: lying })))
}

/** Each with a connection of its own, as two processes have. */
async function onlyOneOpens(open: () => Promise<Backend>): Promise<void> {
  const stores = await Promise.all([open(), open()])
  const opened = await Promise.allSettled(stores.map((store, i) => withEncryption(store, [key(`k${i}`)])))
  const refused = opened.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  expect(refused).toEqual([expect.any(Refused)])
  expect(await collect(stores[0]!.scan(''))).toEqual([])
  for (const store of stores) await store.close()
}

describe('an empty store that is opened at once with two keys', () => {
  const title = 'is taken by one of them, and tells the other'

  it(`${title}, on SQLite`, async () => {
    const path = join(tempFolder(), 'state.db')
    await onlyOneOpens(() => sqliteBackend({ path }))
  })
  itNeeds('redis')(`${title}, on Redis`, (url) => {
    const prefix = freshPrefix()
    return onlyOneOpens(() => redisBackend({ url, prefix }))
  })
  itNeeds('postgres')(`${title}, on Postgres`, (url) => {
    const schema = freshSchema()
    return onlyOneOpens(() => postgresBackend({ url, schema }))
  })
})
