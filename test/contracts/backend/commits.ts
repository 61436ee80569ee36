import { describe, expect, it } from 'vitest'
import { FencedOut, KeyExists, RevisionConflict } from '../../../src/protocol/errors.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { append, bodies, collect, everything, type Given, keysOf, write } from './given.ts'

/** All of a write or nothing, in order, and only where it still fits. */
export function commits(given: Given): void {
  describe('commits', () => {
    it('writes values and entry together and counts one revision for the entry', async () => {
      await given.backend.commit(
        write('g', 0, {
          puts: [
            ['kept', 1],
            ['gone', 1],
          ],
        }),
      )
      await given.backend.commit(
        write('g', 0, { entry: { said: 'first' }, inserts: [['new', 2]], puts: [['kept', 3]], deletes: ['gone'] }),
      )
      expect(await collect(given.backend.scan(''))).toEqual([
        ['kept', 3],
        ['new', 2],
      ])
      expect(await given.backend.head('g')).toEqual({ revision: 1, token: 0 })
      const entries = await collect(given.backend.read('g'))
      expect(entries).toEqual([{ stream: 'g', revision: 1, position: expect.any(String), body: { said: 'first' } }])
    })

    it('starts every stream at revision 0 and token 0', async () => {
      expect(await given.backend.head('never written')).toEqual({ revision: 0, token: 0 })
      expect(await collect(given.backend.read('never written'))).toEqual([])
    })

    it('leaves revision and feed as they were without an entry, and still holds the conditions', async () => {
      await given.backend.commit(append('g', 0))
      await given.backend.commit(write('g', 1, { puts: [['cursor', 1]] }))
      await given.backend.commit(write('g', 1, { puts: [['cursor', 2]] }))
      await given.backend.commit(write('g', 1))
      expect(await given.backend.head('g')).toEqual({ revision: 1, token: 0 })
      expect(await collect(given.backend.feed())).toHaveLength(1)
      await expect(given.backend.commit(write('g', 0, { puts: [['cursor', 3]] }))).rejects.toThrow(RevisionConflict)
      await expect(given.backend.commit(write('g', 1, { fence: 7, puts: [['cursor', 3]] }))).rejects.toThrow(FencedOut)
      await expect(given.backend.commit(write('g', 1, { inserts: [['cursor', 3]] }))).rejects.toThrow(KeyExists)
      expect((await given.backend.getMany(['cursor'])).get('cursor')).toBe(2)
    })

    it('keeps the order of a stream without gaps', async () => {
      for (let i = 0; i < 50; i++) await given.backend.commit(append('g', i, { i }))
      const entries = await collect(given.backend.read('g'))
      expect(entries.map((entry) => entry.revision)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1))
      expect(bodies(entries)).toEqual(Array.from({ length: 50 }, (_, i) => ({ i })))
    })

    it('counts every stream for itself', async () => {
      await given.backend.commit(append('a', 0))
      await given.backend.commit(append('b', 0))
      await given.backend.commit(append('a', 1))
      expect(await given.backend.head('a')).toMatchObject({ revision: 2 })
      expect(await given.backend.head('b')).toMatchObject({ revision: 1 })
      expect(await given.backend.head('a/b')).toMatchObject({ revision: 0 })
    })

    it('takes a key back that was deleted, and deletes what is not there without complaint', async () => {
      await given.backend.commit(write('g', 0, { inserts: [['k', 1]], deletes: ['never there'] }))
      await given.backend.commit(write('g', 0, { deletes: ['k'] }))
      expect(await given.backend.getMany(['k'])).toEqual(new Map())
      await given.backend.commit(write('g', 0, { inserts: [['k', 2]] }))
      expect((await given.backend.getMany(['k'])).get('k')).toBe(2)
    })

    it('lets any stream write any key', async () => {
      await given.backend.commit(write('a', 0, { entry: 1, inserts: [['shared', 'a']] }))
      await given.backend.commit(write('b', 0, { entry: 1, puts: [['shared', 'b']] }))
      expect((await given.backend.getMany(['shared'])).get('shared')).toBe('b')
      await expect(given.backend.commit(write('c', 0, { inserts: [['shared', 'c']] }))).rejects.toThrow(KeyExists)
    })

    it('says where the stream really is when a revision is stale or still to come', async () => {
      await given.backend.commit(append('g', 0))
      await expect(given.backend.commit(append('g', 0))).rejects.toMatchObject({
        code: 'revision_conflict',
        stream: 'g',
        expected: 0,
        actual: 1,
      })
      await expect(given.backend.commit(append('g', 5))).rejects.toMatchObject({ expected: 5, actual: 1 })
    })

    it('refuses a stale fence even when the revision fits, and says whose turn it is', async () => {
      const first = await given.backend.acquire('g', thisHolder('one'), 60_000)
      await given.backend.release(first!)
      const second = await given.backend.acquire('g', thisHolder('two'), 60_000)
      await expect(given.backend.commit({ ...append('g', 0), fence: first!.token })).rejects.toMatchObject({
        code: 'fenced_out',
        stream: 'g',
        fence: first!.token,
        token: second!.token,
      })
      await expect(given.backend.commit({ ...append('g', 0), fence: second!.token + 1 })).rejects.toThrow(FencedOut)
      await given.backend.commit({ ...append('g', 0), fence: second!.token })
      await given.backend.commit(append('g', 1)) // without a fence the revision alone decides
      expect(await given.backend.head('g')).toEqual({ revision: 2, token: second!.token })
    })

    it('refuses any fence but 0 on a stream that nobody ever owned', async () => {
      await expect(given.backend.commit({ ...append('g', 0), fence: 1 })).rejects.toThrow(FencedOut)
      await given.backend.commit({ ...append('g', 0), fence: 0 })
    })

    it('names the gravest reason: fence, then revision, then insert', async () => {
      await given.backend.commit(write('g', 0, { entry: 1, inserts: [['k', 1]] }))
      const insert = { entry: 2, inserts: [['k', 2]] } as const
      await expect(given.backend.commit(write('g', 0, { ...insert, fence: 9 }))).rejects.toThrow(FencedOut)
      await expect(given.backend.commit(write('g', 0, insert))).rejects.toThrow(RevisionConflict)
      await expect(given.backend.commit(write('g', 1, insert))).rejects.toMatchObject({ code: 'key_exists', key: 'k' })
    })

    it('writes nothing at all when one insert meets a key, wherever it stands', async () => {
      await given.backend.commit(
        write('g', 0, {
          entry: 'start',
          puts: [
            ['there', 1],
            ['deleted', 1],
          ],
        }),
      )
      const before = await everything(given.backend, ['g'])
      for (let bad = 0; bad < 6; bad++) {
        const inserts = Array.from({ length: 6 }, (_, i) => [i === bad ? 'there' : `new/${i}`, 2] as const)
        const parts = {
          entry: 'never',
          inserts,
          puts: [
            ['put/a', 2],
            ['put/b', 2],
          ],
          deletes: ['deleted'],
        } as const
        await expect(given.backend.commit(write('g', 1, parts))).rejects.toMatchObject({ key: 'there' })
        expect(await everything(given.backend, ['g'])).toEqual(before)
      }
    })

    it('writes nothing at all when the revision or the fence is stale', async () => {
      await given.backend.commit(write('g', 0, { entry: 'start', puts: [['there', 1]] }))
      const before = await everything(given.backend, ['g'])
      const parts = { entry: 'never', inserts: [['new', 2]], puts: [['there', 2]], deletes: ['gone'] } as const
      await expect(given.backend.commit(write('g', 0, parts))).rejects.toThrow(RevisionConflict)
      await expect(given.backend.commit(write('g', 1, { ...parts, fence: 3 }))).rejects.toThrow(FencedOut)
      expect(await everything(given.backend, ['g'])).toEqual(before)
    })

    it('goes on after a refusal as if it had not been', async () => {
      await given.backend.commit(append('g', 0))
      await expect(given.backend.commit(append('g', 0))).rejects.toThrow(RevisionConflict)
      await given.backend.commit(append('g', 1))
      expect(await given.backend.head('g')).toMatchObject({ revision: 2 })
    })

    it('takes 5,000 keys in one write', async () => {
      const puts = Array.from({ length: 5000 }, (_, i) => [`k/${String(i).padStart(5, '0')}`, { i }] as const)
      await given.backend.commit(write('g', 0, { entry: 'many', puts }))
      expect(await keysOf(given.backend)).toEqual(puts.map(([key]) => key))
      await given.backend.commit(write('g', 1, { entry: 'none', deletes: puts.map(([key]) => key) }))
      expect(await keysOf(given.backend)).toEqual([])
    })
  })
}
