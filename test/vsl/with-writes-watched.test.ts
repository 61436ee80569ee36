import { expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Refused, RevisionConflict, Unavailable } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { withWritesWatched } from '../../src/vsl/with-writes-watched.ts'
import { append, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'

backendContract('memory, its writes watched', () => {
  const clock = manualClock()
  return { open: async () => withWritesWatched(memoryBackend({ clock }), clock).store, elapse: clock.advance }
})

const watchedOf = (over: Partial<Backend>) => withWritesWatched({ ...memoryBackend(), ...over }, manualClock())

it('a store is not asked whether it takes writes after one that did not fit', async () => {
  const { store, checkWriting } = watchedOf({
    set: () => Promise.reject(new Refused('the store may not be written', 'see to that')),
  })
  await store.commit(append('g', 0))
  await expect(store.commit(append('g', 0))).rejects.toThrow(RevisionConflict)
  await checkWriting()
  await expect(store.set('k', 1)).rejects.toThrow(Refused)
  await expect(checkWriting()).rejects.toThrow('see to that')
})

it('a store of which several ask at once is tried once, and believed when it took that', async () => {
  let tried = 0
  const { store, checkWriting } = watchedOf({
    commit: () => Promise.reject(new Error('whatever it may be')),
    set: async () => void tried++,
  })
  await expect(store.commit(write('g', 0, { entry: 1 }))).rejects.toThrow('whatever')
  await Promise.all([checkWriting(), checkWriting()])
  await checkWriting()
  expect(tried).toBe(1)
})

it('a store that has room for next to nothing takes no writes', async () => {
  const { store, checkWriting } = watchedOf({
    async set(_, value) {
      if (JSON.stringify(value).length > 5_000) throw new Unavailable('the store', 'there is no room for more')
    },
  })
  await expect(store.set('k', 'x'.repeat(6_000))).rejects.toThrow(Unavailable)
  await expect(checkWriting()).rejects.toThrow('no room')
})
