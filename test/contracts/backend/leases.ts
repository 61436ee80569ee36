import { describe, expect, it } from 'vitest'
import { FencedOut } from '../../../src/protocol/errors.ts'
import { thisHolder } from '../../../src/vsl/holder.ts'
import { append, collect, type Given, needsKept, needsManyProcesses } from './given.ts'
import { farHolder, goneHolder, needsProcessTable } from './holders.ts'

const LONG = 600_000
const SHORT = 3000

/** One owner per stream, and the token that says which. */
export function leases(given: Given): void {
  describe('leases', () => {
    it('makes a holder the owner and raises the token', async () => {
      const holder = thisHolder('one')
      const lease = { stream: 'g', holder, ttlMs: LONG, token: expect.any(Number) }
      const first = await given.backend.acquire('g', holder, LONG)
      expect(first).toEqual({ ...lease, revision: 0 })
      expect(first!.token).toBeGreaterThan(0)
      expect(await given.backend.head('g')).toEqual({ revision: 0, token: first!.token })
      for (const revision of [0, 1, 2]) await given.backend.commit(append('g', revision))
      const second = await given.backend.acquire('g', holder, LONG)
      expect(second).toEqual({ ...lease, revision: 3 })
      expect(second!.token).toBeGreaterThan(first!.token)
      expect(await given.backend.head('other')).toEqual({ revision: 0, token: 0 })
    })

    it('keeps others out while the lease has time left', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      expect(await given.backend.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
      expect(await given.backend.head('g')).toMatchObject({ token: lease!.token })
      expect(await given.backend.acquire('other', thisHolder('two'), LONG)).toBeDefined()
    })

    it('gives it to exactly one of twenty contenders', async () => {
      const contenders = Array.from({ length: 20 }, (_, i) => given.backend.acquire('g', thisHolder(`c${i}`), LONG))
      const leases = (await Promise.all(contenders)).filter((lease) => lease !== undefined)
      expect(leases).toHaveLength(1)
      expect(await given.backend.head('g')).toMatchObject({ token: leases[0]!.token })
    })

    it('gives many streams at once to whoever asks for them, and takes them back at once', async () => {
      const streams = Array.from({ length: 40 }, (_, i) => `s${i}`)
      const takeAll = (id: string) =>
        Promise.all(streams.map((stream) => given.backend.acquire(stream, thisHolder(id), LONG)))
      await given.backend.acquire('s7', thisHolder('other'), LONG)
      const [ours, theirs] = await Promise.all([takeAll('one'), takeAll('two')])
      for (const [i, stream] of streams.entries()) {
        const owners = [ours[i], theirs[i]].filter((lease) => lease !== undefined)
        expect(owners).toHaveLength(stream === 's7' ? 0 : 1)
        if (owners[0]) expect(await given.backend.head(stream)).toEqual({ revision: 0, token: owners[0].token })
      }
      const held = [...ours, ...theirs].filter((lease) => lease !== undefined)
      await Promise.all(
        [...held, { ...held[0]!, stream: 's7', token: 99 }].map((lease) => given.backend.release(lease)),
      )
      const free = (await takeAll('three')).filter((lease) => lease !== undefined)
      expect(free.map(({ stream }) => stream)).toEqual(streams.filter((stream) => stream !== 's7'))
    })

    it('is given anew to a holder that asks twice at the same moment', async () => {
      const asked = [1, 2, 3].map(() => given.backend.acquire('g', thisHolder('one'), LONG))
      const tokens = (await Promise.all(asked)).map((lease) => lease!.token)
      expect(new Set(tokens).size).toBe(3)
      expect(await given.backend.head('g')).toMatchObject({ token: Math.max(...tokens) })
    })

    it('ends by the time of the store, and not before', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), SHORT)
      await given.elapse(SHORT / 3)
      expect(await given.backend.acquire('g', thisHolder('two'), SHORT)).toBeUndefined()
      await given.elapse(SHORT)
      const next = await given.backend.acquire('g', thisHolder('two'), SHORT)
      expect(next!.token).toBeGreaterThan(lease!.token)
    })

    it('keeps a fence good past the end of the lease until somebody else acquires', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), 500)
      await given.elapse(1000)
      await given.backend.commit({ ...append('g', 0), fence: lease!.token })
      await given.backend.acquire('g', thisHolder('two'), LONG)
      await expect(given.backend.commit({ ...append('g', 1), fence: lease!.token })).rejects.toThrow(FencedOut)
      expect(await collect(given.backend.read('g'))).toHaveLength(1)
    })

    it('is taken over at once when the process of its holder is gone', async (context) => {
      needsProcessTable(context)
      const gone = await given.backend.acquire('g', await goneHolder('gone'), LONG)
      const lease = await given.backend.acquire('g', thisHolder('two'), LONG)
      expect(lease!.token).toBeGreaterThan(gone!.token)
      await expect(given.backend.commit({ ...append('g', 0), fence: gone!.token })).rejects.toThrow(FencedOut)
      expect(await given.backend.renew(gone!)).toBe(false)
    })

    it("is taken over at once when its holder's pid belongs to a later process", async (context) => {
      needsProcessTable(context)
      const before = await given.backend.acquire('g', { ...thisHolder('before'), started: '1' }, LONG)
      const lease = await given.backend.acquire('g', thisHolder('two'), LONG)
      expect(lease!.token).toBeGreaterThan(before!.token)
    })

    it('is not taken from a holder on another machine, whose processes cannot be seen', async () => {
      await given.backend.acquire('g', farHolder('far'), LONG)
      expect(await given.backend.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
    })

    it('is taken over from oneself with a new token, which ends the old lease', async () => {
      const first = await given.backend.acquire('g', thisHolder('one'), LONG)
      const second = await given.backend.acquire('g', thisHolder('one'), LONG)
      expect(second!.token).toBeGreaterThan(first!.token)
      expect(await given.backend.renew(first!)).toBe(false)
      expect(await given.backend.renew(second!)).toBe(true)
      await expect(given.backend.commit({ ...append('g', 0), fence: first!.token })).rejects.toThrow(FencedOut)
      await given.backend.release(first!) // no longer his to release
      expect(await given.backend.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
    })

    it('gets its full time again when renewed', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), SHORT)
      await given.elapse((SHORT * 2) / 3)
      expect(await given.backend.renew(lease!)).toBe(true)
      await given.elapse((SHORT * 2) / 3)
      expect(await given.backend.acquire('g', thisHolder('two'), SHORT)).toBeUndefined()
      await given.elapse(SHORT)
      const next = await given.backend.acquire('g', thisHolder('two'), SHORT)
      expect(next!.token).toBeGreaterThan(lease!.token)
      expect(await given.backend.renew(lease!)).toBe(false)
    })

    it('can be renewed past its end as long as nobody took it', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), 500)
      await given.elapse(1000)
      expect(await given.backend.renew({ ...lease!, ttlMs: LONG })).toBe(true)
      expect(await given.backend.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
    })

    it('ends at once when released; the token stays, and with it the fence', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      await given.backend.release(lease!)
      await given.backend.release(lease!)
      expect(await given.backend.renew(lease!)).toBe(false)
      expect(await given.backend.head('g')).toEqual({ revision: 0, token: lease!.token })
      await given.backend.commit({ ...append('g', 0), fence: lease!.token })
      const next = await given.backend.acquire('g', thisHolder('two'), LONG)
      expect(next!.token).toBeGreaterThan(lease!.token)
      await given.backend.release(lease!) // somebody else's by now
      expect(await given.backend.acquire('g', thisHolder('three'), LONG)).toBeUndefined()
    })

    it('does not know a lease it never gave', async () => {
      const lease = { stream: 'g', holder: thisHolder('one'), token: 1, ttlMs: LONG }
      expect(await given.backend.renew(lease)).toBe(false)
      await given.backend.release(lease)
      expect(await given.backend.head('g')).toEqual({ revision: 0, token: 0 })
    })

    it('is nobody else’s, also under a token that another was given before the store was set back', async () => {
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      const other = { ...lease!, holder: thisHolder('two') }
      expect(await given.backend.renew(other)).toBe(false)
      await given.backend.release(other)
      expect(await given.backend.acquire('g', thisHolder('three'), LONG)).toBeUndefined()
      expect(await given.backend.renew(lease!)).toBe(true)
    })

    it('leaves revision and feed as they were', async () => {
      await given.backend.commit(append('g', 0))
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      await given.backend.renew(lease!)
      await given.backend.release(lease!)
      expect(await given.backend.head('g')).toEqual({ revision: 1, token: lease!.token })
      expect(await collect(given.backend.feed())).toHaveLength(1)
    })

    it('counts for every process that has the store open', async (context) => {
      needsManyProcesses(given, context)
      const beside = await given.beside()
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      expect(await beside.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
      await beside.commit({ ...append('g', 0), fence: lease!.token })
      expect(await beside.renew(lease!)).toBe(true)
      await beside.release(lease!)
      const next = await beside.acquire('g', thisHolder('two'), LONG)
      expect(next!.token).toBeGreaterThan(lease!.token)
      await expect(given.backend.commit({ ...append('g', 1), fence: lease!.token })).rejects.toThrow(FencedOut)
    })

    it('outlasts a close: token and holder are still known', async (context) => {
      needsKept(given, context)
      const lease = await given.backend.acquire('g', thisHolder('one'), LONG)
      const again = await given.reopen()
      expect(await again.head('g')).toEqual({ revision: 0, token: lease!.token })
      expect(await again.acquire('g', thisHolder('two'), LONG)).toBeUndefined()
      expect(await again.renew(lease!)).toBe(true)
      const next = await again.acquire('g', thisHolder('one'), LONG)
      expect(next!.token).toBeGreaterThan(lease!.token)
    })
  })
}
