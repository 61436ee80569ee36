import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Corrupt, Refused, Unavailable } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import { openProject } from '../../src/psg/project.ts'
import { type Backend, POSITIONS } from '../../src/vsl/backend.ts'
import { type CopyCounts, copyStore, isEmpty } from '../../src/vsl/copy.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { fileBackend } from '../../src/vsl/file.ts'
import { liftedBackend } from '../../src/vsl/lifted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { append, bodies, collect, everything, write } from '../contracts/backend/given.ts'
import { faultAt, faultyBackend } from '../support/faulty-backend.ts'
import { heardByProcess } from '../support/heard-by-process.ts'
import { tempFolder } from '../support/temp-folder.ts'

const key = { id: 'k', key: randomBytes(32) }
const MAKERS: Readonly<Record<string, () => Promise<Backend>>> = {
  memory: async () => memoryBackend(),
  file: () => fileBackend({ path: join(tempFolder(), 'state') }),
  sqlite: () => sqliteBackend({ path: join(tempFolder(), 'state.db') }),
  lifted: () => liftedBackend(new Map()),
  encrypted: () => withEncryption(memoryBackend(), [key]),
}

async function filled(store: Backend): Promise<Backend> {
  for (let i = 0; i < 30; i++) {
    const puts = Array.from({ length: 20 }, (_, k) => [`v/${i}/${k}`, { z: i, a: k }] as const)
    await store.commit(write(`s/${i % 4}`, Math.floor(i / 4), { entry: { i }, puts }))
  }
  await store.commit(append('copy', 0)) // a stream that is called like the one the copy uses
  await store.set('own', { z: 1, a: 2 })
  await store.set('null', null)
  for (let i = 0; i < 5; i++) await store.putBlob(Buffer.from(`blob ${i}`))
  const entries = await collect(store.feed())
  const cursors: [string, Json][] = [3, 17, entries.length - 1].map((at) => [
    `${POSITIONS}bus/${at}`,
    entries[at]!.position,
  ])
  await store.commit(write('relay', 0, { puts: cursors }))
  return store
}

/** Without positions, each store's own, but with the entries that are still to come after each cursor. */
async function told(store: Backend): Promise<unknown> {
  const all = (await everything(store, ['s/0', 's/3', 'copy', 'relay'])) as {
    feed: { position?: string }[]
    values: [string, Json][]
  }
  const cursors = all.values.filter(([k]) => k.startsWith(POSITIONS))
  return {
    ...all,
    feed: all.feed.map(({ position: _, ...entry }) => entry),
    values: all.values.filter(([k]) => !k.startsWith(POSITIONS)),
    cursors: await Promise.all(
      cursors.map(async ([k, after]) => [k, bodies(await collect(store.feed({ after: after as string })))]),
    ),
  }
}

describe('copyStore', () => {
  const ways = Object.keys(MAKERS).flatMap(
    (from) =>
      [
        [from, 'memory'],
        ['memory', from],
      ] as const,
  )
  it.each([...ways, ['file', 'sqlite'], ['lifted', 'encrypted']] as const)(
    'copies everything from %s to %s',
    async (a, b) => {
      const [from, to] = [await filled(await MAKERS[a]!()), await MAKERS[b]!()]
      const counts = await copyStore(from, to, { verify: true })
      expect(counts).toEqual({ blobs: 5, entries: 31, values: 603, own: 2 })
      expect(await told(to)).toEqual(await told(from))
      expect(JSON.stringify(await to.get('own'))).toBe('{"z":1,"a":2}')
      await Promise.all([from.close(), to.close()])
    },
  )

  it.each([
    ['was told of nothing yet', ''],
    ['stands before the first entry', '0'.repeat(20)],
  ])('keeps a cursor that %s where it is, so that nothing is taken away before it is told', async (_, position) => {
    const from = memoryBackend()
    await from.commit(append('g', 0))
    await from.commit(write('r', 0, { puts: [[`${POSITIONS}bus`, position]] }))
    const to = memoryBackend()
    await copyStore(from, to, { verify: true })
    expect(await collect(to.scan(''))).toEqual([[`${POSITIONS}bus`, '']])
  })

  it('refuses a target that is not empty, whatever is in it', async () => {
    for (const fill of [
      (store: Backend) => store.set('k', 1),
      (store: Backend) => store.commit(append('g', 0)),
      (store: Backend) => store.commit(write('g', 0, { puts: [['k', 1]] })),
      (store: Backend) => store.putBlob(new Uint8Array([1])),
    ]) {
      const to = memoryBackend()
      await fill(to)
      const before = await everything(to, ['g'])
      await expect(copyStore(await filled(memoryBackend()), to)).rejects.toThrow(Refused)
      expect(await everything(to, ['g'])).toEqual(before)
    }
  })

  it.each([
    ['verify', 'yes'],
    ['onProgress', 1],
    ['signal', {}],
  ])('refuses a %s that is none, and copies nothing', async (name, value) => {
    const to = memoryBackend()
    await expect(copyStore(await filled(memoryBackend()), to, { [name]: value } as never)).rejects.toMatchObject({
      problems: [expect.objectContaining({ path: name, rule: 'type' })],
    })
    for await (const [key] of to.scan('')) expect.fail(key)
  })

  it('refuses to copy positions that it cannot read', async () => {
    const inner = memoryBackend()
    const sealed = await withEncryption(inner, [key])
    await sealed.commit(write('r', 0, { puts: [[`${POSITIONS}bus`, '0'.repeat(20)]] }))
    await expect(copyStore(inner, memoryBackend())).rejects.toThrow(Refused)
  })

  it.each([
    ['lost', undefined],
    ['changed', new Uint8Array([9])],
  ])('does not copy a blob that was %s, and does not take a copy for one that cannot give it', async (_, bytes) => {
    const from = await filled(memoryBackend())
    const getBlob = async () => bytes
    await expect(copyStore({ ...from, getBlob }, memoryBackend())).rejects.toThrow(Corrupt)
    await expect(copyStore(from, { ...memoryBackend(), getBlob }, { verify: true })).rejects.toThrow(Corrupt)
  })

  it('writes large values a few at a time', async () => {
    const from = memoryBackend()
    for (let i = 0; i < 5; i++) await from.commit(write('g', 0, { puts: [[`v/${i}`, 'x'.repeat(600_000)]] }))
    const to = memoryBackend()
    const written: number[] = []
    const commit: Backend['commit'] = (one) => {
      const values = one.inserts.filter(([key]) => key.startsWith('v/'))
      if (values.length > 0) written.push(values.length)
      return to.commit(one)
    }
    await copyStore(from, { ...to, commit })
    expect(written).toEqual([2, 2, 1])
  })

  it('leaves nothing behind when it was told to stop before it began', async () => {
    const to = memoryBackend()
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(copyStore(await filled(memoryBackend()), to, { signal })).rejects.toThrow('enough')
    expect(await isEmpty(to)).toBe(true)
  })

  it.each([
    ['a value', (to: Backend) => to.commit(write('x', 0, { puts: [['v/3/3', 'changed']] }))],
    ['one value more', (to: Backend) => to.commit(write('x', 0, { puts: [['more', 1]] }))],
    ['an own key', (to: Backend) => to.set('own', 1)],
    ['an entry', (to: Backend) => to.commit(append('x', 0))],
    ['a blob', (to: Backend) => to.putBlob(new Uint8Array([9]))],
  ] as const)('finds that %s is not the same', async (_, spoil) => {
    const from = await filled(memoryBackend())
    const to = memoryBackend()
    let last = 0
    const onProgress = ({ own }: CopyCounts) => {
      if (own === 2 && last !== 2) spoil(to) // somebody writes at the very end
      last = own
    }
    await expect(copyStore(from, to, { verify: true, onProgress })).rejects.toThrow(Corrupt)
  })

  it('tells how far it is, and stops when it is told to', async () => {
    const from = await filled(memoryBackend())
    const abort = new AbortController()
    const seen: CopyCounts[] = []
    const onProgress = (counts: CopyCounts) => {
      seen.push(counts)
      if (counts.entries === 10) abort.abort(new Error('enough'))
    }
    await expect(copyStore(from, memoryBackend(), { onProgress, signal: abort.signal })).rejects.toThrow('enough')
    expect(seen.at(-1)).toEqual({ blobs: 5, entries: 10, values: 0, own: 0 })
  })

  it.each<keyof CopyCounts>(['blobs', 'entries', 'values', 'own'])(
    'leaves behind, cut off among the %s, what nobody takes for a store',
    async (kind) => {
      const from = await filled(memoryBackend())
      const to = memoryBackend()
      const onProgress = (counts: CopyCounts) => {
        if (counts[kind] === 1 || counts[kind] > 100) throw new Error('enough')
      }
      await expect(copyStore(from, to, { verify: true, onProgress })).rejects.toThrow('enough')
      const before = await everything(to, ['project'])
      const refused = expect.objectContaining({ code: 'refused', message: expect.stringContaining('that was cut off') })
      await expect(openProject(to)).rejects.toEqual(refused)
      await expect(copyStore(to, memoryBackend())).rejects.toEqual(refused)
      await expect(copyStore(from, to)).rejects.toThrow('not empty')
      expect(await everything(to, ['project'])).toEqual(before)
    },
  )

  it('stops while it compares, too, and leaves nothing behind that fails unheard', async () => {
    const unheard = heardByProcess('unhandledRejection')
    const abort = new AbortController()
    const onProgress = ({ own }: CopyCounts) => own === 2 && abort.abort(new Error('enough')) // the last there is
    const options = { verify: true, onProgress, signal: abort.signal }
    await expect(copyStore(await filled(memoryBackend()), memoryBackend(), options)).rejects.toThrow('enough')
    await nextTurn()
    expect(unheard).toEqual([])
  })

  it('passes on what either store says', async () => {
    const from = await filled(memoryBackend())
    const to = faultyBackend(memoryBackend(), faultAt('commit', 12, 'refuse'), manualClock())
    await expect(copyStore(from, to)).rejects.toThrow(Unavailable)
  })
})
