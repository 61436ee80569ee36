import { describe, expect, it } from 'vitest'
import { Closed } from '../../../src/protocol/errors.ts'
import { digestOf } from '../../../src/protocol/json.ts'
import type { Backend } from '../../../src/vsl/backend.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { follow } from './follow.ts'
import { append, collect, type Given, refusals, write } from './given.ts'

/** An end that loses nothing and leaves nobody waiting. */
export function closing(given: Given): void {
  describe('close', () => {
    it('can be called twice, and twice at once', async () => {
      await Promise.all([given.backend.close(), given.backend.close()])
      await given.backend.close()
    })

    it('makes every later call throw Closed', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), 60_000)
      await given.backend.close()
      for (const [name, call] of calls(given.backend)) {
        const error = await call({ lease: lease! }).then(
          () => undefined,
          (error: unknown) => error,
        )
        expect(error, name).toBeInstanceOf(Closed)
      }
    })

    it('waits for commits in hand', async () => {
      const work = Array.from({ length: 20 }, (_, i) =>
        given.backend.commit(write(`s/${i}`, 0, { entry: i, puts: [[`k/${i}`, i]] })),
      )
      const settled = Promise.allSettled(work)
      await given.backend.close()
      expect(refusals(await settled).filter((name) => name !== undefined)).toEqual([])
      if (!given.kept()) return
      const again = await given.reopen()
      expect(await collect(again.feed())).toHaveLength(20)
      expect(await collect(again.scan('k/'))).toHaveLength(20)
    })

    it('ends followers without an error', async () => {
      await given.backend.commit(append('g', 0))
      const followers = [
        follow((signal) => given.backend.feed({ follow: true, signal })),
        follow((signal) => given.backend.read('g', { follow: true, signal })),
      ]
      await Promise.all(followers.map((follower) => follower.has(1)))
      await given.backend.close()
      await Promise.all(followers.map((follower) => follower.ended))
    })

    it.for(['scan', 'read', 'feed'] as const)('lets nobody who has part of a %s take it for all', async (walk) => {
      const count = 400
      const puts = Array.from({ length: count }, (_, i) => [`k/${i}`, i] as const)
      await given.backend.commit(write('g', 0, { puts }))
      for (let i = 0; walk !== 'scan' && i < count; i++) await given.backend.commit(append('g', i))
      const items = {
        scan: () => given.backend.scan('k/'),
        read: () => given.backend.read('g'),
        feed: () => given.backend.feed(),
      }
      let seen = 0
      const error = await (async () => {
        for await (const _ of items[walk]()) if (++seen === 1) await given.backend.close()
      })().catch((error: unknown) => error)
      if (error === undefined) expect(seen).toBe(count)
      else expect(error).toBeInstanceOf(Closed)
    })
  })
}

type Lease = NonNullable<Awaited<ReturnType<Backend['acquire']>>>

const calls = (backend: Backend): readonly (readonly [string, (at: { lease: Lease }) => Promise<unknown>])[] => [
  ['get', () => backend.get('k')],
  ['set', () => backend.set('k', 1)],
  ['delete', () => backend.delete('k')],
  ['commit', () => backend.commit(append('g', 0))],
  ['getMany', () => backend.getMany(['k'])],
  ['scan', () => collect(backend.scan(''))],
  ['head', () => backend.head('g')],
  ['read', () => collect(backend.read('g'))],
  ['follow', () => collect(backend.read('g', { follow: true }))],
  ['feed', () => collect(backend.feed())],
  ['acquire', () => backend.acquire('g', thisHolder('two'), 1000)],
  ['renew', ({ lease }) => backend.renew(lease)],
  ['release', ({ lease }) => backend.release(lease)],
  ['forgetBlobs', () => backend.forgetBlobs([digestOf('a')], 0)],
  ['putBlob', () => backend.putBlob(new Uint8Array([1]))],
  ['getBlob', () => backend.getBlob(digestOf('x'))],
  ['blobs', () => collect(backend.blobs())],
  ...(backend.facts ? ([['facts', () => backend.facts!()]] as const) : []),
]
