import { describe, expect, it } from 'vitest'
import type { Digest } from '../../../src/protocol/json.ts'
import type { Backend } from '../../../src/vsl/backend.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { follow } from './follow.ts'
import { append, bodies, collect, everything, type Given, needsKept, needsManyProcesses, write } from './given.ts'

/** Streams and blobs that are taken away again. */
export function forgetting(given: Given): void {
  describe('forgetting', () => {
    it('takes the entries of a stream away, and the values that are named with it', async () => {
      await filled(given.backend)
      await given.backend.commit(
        write('old', 3, { forget: true, inserts: [['new', 1]], puts: [['k/1', 'put']], deletes: ['k/2', 'never'] }),
      )
      expect(await given.backend.head('old')).toEqual({ revision: 0, token: 0 })
      expect(await collect(given.backend.read('old'))).toEqual([])
      expect(bodies(await collect(given.backend.feed()))).toEqual(['young 1', 'young 2'])
      expect(await collect(given.backend.scan(''))).toEqual([
        ['k/1', 'put'],
        ['k/3', 3],
        ['new', 1],
      ])
    })

    it('leaves other streams and their places as they were', async () => {
      await filled(given.backend)
      const young = await collect(given.backend.read('young'))
      await given.backend.commit(write('old', 3, { forget: true }))
      expect(await collect(given.backend.read('young'))).toEqual(young)
      expect(await collect(given.backend.feed())).toEqual(young)
      await given.backend.commit(append('young', 2, 'young 3'))
      expect(bodies(await collect(given.backend.read('young', { after: 2 })))).toEqual(['young 3'])
    })

    it('goes on behind any place, also of what was forgotten', async () => {
      await filled(given.backend)
      const all = await collect(given.backend.feed())
      await given.backend.commit(write('old', 3, { forget: true }))
      for (const [i, { position }] of all.entries())
        expect(bodies(await collect(given.backend.feed({ after: position })))).toEqual(
          bodies(all.slice(i + 1).filter(({ stream }) => stream === 'young')),
        )
    })

    it('lets those who follow go on, wherever they have come to', async () => {
      await given.backend.commit(append('old', 0, 'old 1'))
      const everybody = follow((signal) => given.backend.feed({ follow: true, signal }))
      const reader = follow((signal) => given.backend.read('old', { follow: true, signal }))
      await Promise.all([everybody.has(1), reader.has(1)])
      await given.backend.commit(append('young', 0, 'young 1'))
      await everybody.has(2)
      await given.backend.commit(append('old', 1, 'old 2'))
      await Promise.all([everybody.has(3), reader.has(2)])
      const late = await collect(given.backend.feed(), 1)
      const behind = follow((signal) => given.backend.feed({ after: late[0]!.position, follow: true, signal }))
      await behind.has(2)
      await given.backend.commit(append('young', 1, 'young 2'))
      await given.backend.commit(write('old', 2, { forget: true }))
      await given.backend.commit(append('young', 2, 'young 3'))
      await Promise.all([everybody.has(5), behind.has(4)])
      await Promise.all([everybody.stop(), behind.stop(), reader.stop()])
      expect(bodies(everybody.entries)).toEqual(['old 1', 'young 1', 'old 2', 'young 2', 'young 3'])
      expect(bodies(behind.entries)).toEqual(['young 1', 'old 2', 'young 2', 'young 3'])
    })

    it('lets somebody go on who stood at a forgotten entry and heard nothing since', async () => {
      await given.backend.commit(append('old', 0, 'old 1'))
      const walk = given.backend.feed({ follow: true })[Symbol.asyncIterator]()
      expect((await walk.next()).value.body).toBe('old 1')
      await given.backend.commit(append('young', 0, 'young 1'))
      await given.backend.commit(write('old', 1, { forget: true }))
      expect((await walk.next()).value.body).toBe('young 1')
      await given.backend.commit(append('young', 1, 'young 2'))
      expect((await walk.next()).value.body).toBe('young 2')
      await walk.return?.()
    })

    it('begins anew in a stream that was forgotten, behind all that is there', async () => {
      await filled(given.backend)
      await given.backend.commit(write('old', 3, { forget: true }))
      await given.backend.commit(append('old', 0, 'again 1'))
      await given.backend.commit(append('old', 1, 'again 2'))
      expect(await given.backend.head('old')).toMatchObject({ revision: 2 })
      expect((await collect(given.backend.read('old'))).map(({ revision, body }) => [revision, body])).toEqual([
        [1, 'again 1'],
        [2, 'again 2'],
      ])
      expect(bodies(await collect(given.backend.feed()))).toEqual(['young 1', 'young 2', 'again 1', 'again 2'])
    })

    it('can be done again', async () => {
      await filled(given.backend)
      for (const round of [1, 2, 3]) {
        await given.backend.commit(write('old', round === 1 ? 3 : 1, { forget: true }))
        await given.backend.commit(append('old', 0, `round ${round}`))
        await given.backend.commit(append('young', round + 1, 'newest'))
      }
      expect(bodies(await collect(given.backend.read('old')))).toEqual(['round 3'])
    })

    it('changes nothing for a stream that has no entries', async () => {
      await filled(given.backend)
      const before = await everything(given.backend, STREAMS)
      await given.backend.commit(write('never', 0, { forget: true }))
      expect(await everything(given.backend, STREAMS)).toEqual(before)
    })

    it('keeps token and lease', async () => {
      await filled(given.backend)
      const lease = await given.backend.acquire('old', thisHolder('one'), 60_000)
      await given.backend.commit(write('old', 3, { forget: true, fence: lease!.token }))
      expect(await given.backend.head('old')).toEqual({ revision: 0, token: lease!.token })
      expect(await given.backend.acquire('old', thisHolder('other'), 60_000)).toBeUndefined()
      expect(await given.backend.renew(lease!)).toBe(true)
      await given.backend.commit(write('old', 0, { entry: 'again', fence: lease!.token }))
      await given.backend.release(lease!)
      expect((await given.backend.acquire('old', thisHolder('other'), 60_000))!.token).toBeGreaterThan(lease!.token)
    })

    it.for([
      ['a revision that is not its own', { expected: 2 }, 'revision_conflict'],
      ['a fence that is not its token', { fence: 7 }, 'fenced_out'],
      ['an insert that meets a key', { inserts: [['k/1', 1]] }, 'key_exists'],
      ['a fence before all else', { expected: 2, fence: 7, inserts: [['k/1', 1]] }, 'fenced_out'],
    ] as const)('is refused for %s, and nothing is changed', async ([, parts, code]) => {
      await filled(given.backend)
      const before = await everything(given.backend, STREAMS)
      await expect(
        given.backend.commit(write('old', 3, { forget: true, deletes: ['k/2'], ...parts })),
      ).rejects.toMatchObject({ code })
      expect(await everything(given.backend, STREAMS)).toEqual(before)
    })

    it('is refused for the stream with the newest entry of all', async () => {
      await filled(given.backend)
      const before = await everything(given.backend, STREAMS)
      await expect(given.backend.commit(write('young', 2, { forget: true, deletes: ['k/2'] }))).rejects.toMatchObject({
        code: 'refused',
      })
      expect(await everything(given.backend, STREAMS)).toEqual(before)
      await given.backend.commit(append('old', 3, 'old 4'))
      await given.backend.commit(write('young', 2, { forget: true }))
      expect(bodies(await collect(given.backend.feed()))).toEqual(['old 1', 'old 2', 'old 3', 'old 4'])
    })

    it('is one of many commits at once', async () => {
      await filled(given.backend)
      for (let i = 0; i < 20; i++) await given.backend.commit(append(`s/${i}`, 0))
      await given.backend.commit(append('young', 2, 'newest'))
      await Promise.all(
        Array.from({ length: 40 }, (_, i) =>
          given.backend.commit(i < 20 ? write(`s/${i}`, 1, { forget: true }) : append(`t/${i}`, 0, i)),
        ),
      )
      const left = (await collect(given.backend.feed())).map(({ stream }) => stream)
      expect(left.filter((stream) => stream.startsWith('s/'))).toEqual([])
      expect(left.filter((stream) => stream.startsWith('t/'))).toHaveLength(20)
    })

    it('takes away thousands of entries and values at once', async () => {
      const count = 3000
      for (let at = 0; at < count; at += 500) {
        const puts = Array.from({ length: 500 }, (_, i) => [`many/${at + i}`, at + i] as const)
        await given.backend.commit(write('old', at / 500, { entry: at, puts }))
      }
      for (let i = count / 500; i < 600; i++) await given.backend.commit(append('old', i))
      await given.backend.commit(append('young', 0, 'newest'))
      const deletes = Array.from({ length: count }, (_, i) => `many/${i}`)
      await given.backend.commit(write('old', 600, { forget: true, deletes }))
      expect(await collect(given.backend.scan(''))).toEqual([])
      expect(bodies(await collect(given.backend.feed()))).toEqual(['newest'])
      expect(await collect(given.backend.read('old'))).toEqual([])
    })

    it('is known to another process at once', async (context) => {
      needsManyProcesses(given, context)
      const beside = await given.beside()
      await filled(given.backend)
      const follower = follow((signal) => beside.feed({ follow: true, signal }))
      await follower.has(5)
      await given.backend.commit(write('old', 3, { forget: true }))
      expect(await beside.head('old')).toEqual({ revision: 0, token: 0 })
      expect(bodies(await collect(beside.feed()))).toEqual(['young 1', 'young 2'])
      await expect(beside.commit(append('old', 3))).rejects.toMatchObject({ code: 'revision_conflict', actual: 0 })
      await beside.commit(append('old', 0, 'again'))
      await follower.has(6)
      await follower.stop()
      expect(bodies(await collect(given.backend.read('old')))).toEqual(['again'])
    })

    it('stays forgotten when the store is opened again', async (context) => {
      needsKept(given, context)
      await filled(given.backend)
      const [first] = await collect(given.backend.feed(), 1)
      await given.backend.commit(write('old', 3, { forget: true, puts: [['k/1', 'put']], deletes: ['k/2'] }))
      const before = await everything(given.backend, STREAMS)
      const again = await given.reopen()
      expect(await everything(again, STREAMS)).toEqual(before)
      expect(bodies(await collect(again.feed({ after: first!.position })))).toEqual(['young 1', 'young 2'])
      await again.commit(append('old', 0, 'again'))
      const last = await given.reopen()
      expect(bodies(await collect(last.read('old')))).toEqual(['again'])
      expect(bodies(await collect(last.feed()))).toEqual(['young 1', 'young 2', 'again'])
    })

    it('takes away the blobs that nobody has put for so long', async () => {
      const [first, second, third] = await Promise.all(['1', '2', '3'].map((text) => put(given.backend, text)))
      await given.elapse(2000)
      await put(given.backend, '2')
      const absent = `sha256:${'0'.repeat(64)}` as Digest
      const gone = await given.backend.forgetBlobs([first!, second!, absent, first!], 1000)
      expect(gone).toEqual([first])
      expect(await given.backend.getBlob(first!)).toBeUndefined()
      expect(new Set(await collect(given.backend.blobs()))).toEqual(new Set([second, third]))
      await given.elapse(2000)
      expect(await given.backend.forgetBlobs([], 1000)).toEqual([])
      expect(await given.backend.forgetBlobs([second!], 60_000)).toEqual([])
      expect(await given.backend.forgetBlobs([second!], 1000)).toEqual([second])
      expect(await collect(given.backend.blobs())).toEqual([third])
    })

    it('takes a blob again that was taken away', async () => {
      const digest = await put(given.backend, 'again')
      expect(await given.backend.forgetBlobs([digest], 0)).toEqual([digest])
      expect(await put(given.backend, 'again')).toBe(digest)
      expect(new TextDecoder().decode(await given.backend.getBlob(digest))).toBe('again')
      expect(await collect(given.backend.blobs())).toEqual([digest])
    })

    it('keeps what another process has put again', async (context) => {
      needsManyProcesses(given, context)
      const digest = await put(given.backend, 'shared')
      await given.elapse(2000)
      await put(await given.beside(), 'shared')
      expect(await given.backend.forgetBlobs([digest], 1000)).toEqual([])
    })

    it('remembers when a blob was put, also when the store is opened again', async (context) => {
      needsKept(given, context)
      const digest = await put(given.backend, 'kept')
      const again = await given.reopen()
      expect(await again.forgetBlobs([digest], 60_000)).toEqual([])
      expect(await again.forgetBlobs([digest], 0)).toEqual([digest])
      const last = await given.reopen()
      expect(await last.getBlob(digest)).toBeUndefined()
      expect(await collect(last.blobs())).toEqual([])
    })

    it('takes away thousands of blobs at once', async () => {
      const digests = await Promise.all(Array.from({ length: 2500 }, (_, i) => put(given.backend, `${i}`)))
      const [kept, ...rest] = digests
      expect([...(await given.backend.forgetBlobs(rest, 0))].sort()).toEqual([...rest].sort())
      expect(await collect(given.backend.blobs())).toEqual([kept])
    })
  })
}

const STREAMS = ['old', 'young', 'never']

/** Three entries of one stream and two of another, which has the last, in turns; and three values. */
async function filled(backend: Backend): Promise<void> {
  await backend.commit(write('old', 0, { entry: 'old 1', inserts: [['k/1', 1]] }))
  await backend.commit(write('old', 1, { entry: 'old 2', puts: [['k/2', 2]] }))
  await backend.commit(write('young', 0, { entry: 'young 1', puts: [['k/3', 3]] }))
  await backend.commit(append('old', 2, 'old 3'))
  await backend.commit(append('young', 1, 'young 2'))
}

const put = (backend: Backend, text: string): Promise<Digest> => backend.putBlob(new TextEncoder().encode(text))
