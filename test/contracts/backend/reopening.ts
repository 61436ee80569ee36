import { describe, expect, it } from 'vitest'
import { RevisionConflict } from '../../../src/protocol/errors.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { append, collect, everything, type Given, needsKept, needsManyProcesses, write } from './given.ts'

/** What was acknowledged is there again. */
export function reopening(given: Given): void {
  describe('reopening', () => {
    it('keeps everything: values, own keys, entries at their positions, tokens and blobs', async (context) => {
      needsKept(given, context)
      await given.backend.set('own', { z: 1, a: 2 })
      await given.backend.set('deleted', 1)
      await given.backend.delete('deleted')
      for (let i = 0; i < 20; i++)
        await given.backend.commit(
          write(`s/${i % 3}`, Math.floor(i / 3), {
            entry: { i },
            inserts: [[`new/${i}`, i]],
            puts: [
              ['last', i],
              [`gone/${i}`, i],
            ],
            deletes: i > 0 ? [`gone/${i - 1}`] : [],
          }),
        )
      await given.backend.acquire('s/1', thisHolder('one'), 60_000)
      await given.backend.putBlob(new Uint8Array([1, 2, 3]))
      const streams = ['s/0', 's/1', 's/2', 's/3']
      const before = await everything(given.backend, streams)
      const again = await given.reopen()
      expect(await everything(again, streams)).toEqual(before)
      expect(JSON.stringify(await again.get('own'))).toBe('{"z":1,"a":2}')
      expect(await again.get('deleted')).toBeUndefined()
    })

    it('goes on where it was: conditions hold, positions grow', async (context) => {
      needsKept(given, context)
      await given.backend.commit(write('g', 0, { entry: 1, inserts: [['k', 1]] }))
      const [first] = await collect(given.backend.feed())
      const again = await given.reopen()
      await expect(again.commit(append('g', 0))).rejects.toThrow(RevisionConflict)
      await expect(again.commit(write('g', 1, { inserts: [['k', 2]] }))).rejects.toMatchObject({ key: 'k' })
      await again.commit(write('g', 1, { entry: 2, puts: [['k', 2]] }))
      const [second] = await collect(again.feed({ after: first!.position }))
      expect(second).toMatchObject({ stream: 'g', revision: 2, body: 2 })
      const third = await given.reopen()
      expect((await third.getMany(['k'])).get('k')).toBe(2)
      expect(await collect(third.feed())).toEqual([first, second])
    })

    it('can be done many times', async (context) => {
      needsKept(given, context)
      let backend = given.backend
      for (let i = 0; i < 8; i++) {
        await backend.commit(write('g', i, { entry: i, puts: [[`k/${i}`, i]] }))
        backend = await given.reopen()
      }
      expect(await collect(backend.read('g'))).toHaveLength(8)
      expect(await collect(backend.scan('k/'))).toHaveLength(8)
    })

    it('can be done by several processes at once, on a store that is still empty', async (context) => {
      needsManyProcesses(given, context)
      const backends = await Promise.all(Array.from({ length: 4 }, () => given.beside()))
      await Promise.all(backends.map((backend, i) => backend.commit(append(`s/${i}`, 0))))
      for (const backend of backends) expect(await collect(backend.feed())).toHaveLength(4)
    })
  })
}
