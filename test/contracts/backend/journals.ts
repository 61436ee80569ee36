import { performance } from 'node:perf_hooks'
import { describe, expect, it } from 'vitest'
import type { Backend } from '../../../src/vsl/backend.ts'
import { follow } from './follow.ts'
import { append, bodies, collect, type Given, needsManyProcesses, write } from './given.ts'

/** Entries, by stream and all together, once and as they come. */
export function journals(given: Given): void {
  describe('read', () => {
    it('gives the entries above a revision, oldest first', async () => {
      for (let i = 0; i < 5; i++) await given.backend.commit(append('g', i))
      await given.backend.commit(append('other', 0))
      const revisions = async (after: number) =>
        (await collect(given.backend.read('g', { after }))).map((entry) => entry.revision)
      expect(await revisions(0)).toEqual([1, 2, 3, 4, 5])
      expect(await revisions(3)).toEqual([4, 5])
      expect(await revisions(5)).toEqual([])
      expect(await revisions(99)).toEqual([])
    })

    it(
      'walks a long stream',
      async () => {
        for (let i = 0; i < 1200; i++) await given.backend.commit(append('g', i, i))
        const entries = await collect(given.backend.read('g', { after: 3 }))
        expect(bodies(entries)).toEqual(Array.from({ length: 1197 }, (_, i) => i + 3))
      },
      given.longMs,
    )

    it('follows: first what is there, then what comes', async () => {
      await given.backend.commit(append('g', 0))
      const follower = follow((signal) => given.backend.read('g', { follow: true, signal }))
      await follower.has(1)
      await given.backend.commit(append('other', 0))
      for (let i = 1; i < 6; i++) await given.backend.commit(append('g', i))
      await follower.has(6)
      expect(follower.entries.map((entry) => [entry.stream, entry.revision])).toEqual(
        [1, 2, 3, 4, 5, 6].map((revision) => ['g', revision]),
      )
      await follower.stop()
    })

    it('follows from above the head, silent until it is reached', async () => {
      const follower = follow((signal) => given.backend.read('g', { after: 2, follow: true, signal }))
      for (let i = 0; i < 4; i++) await given.backend.commit(append('g', i))
      await follower.has(2)
      expect(follower.entries.map((entry) => entry.revision)).toEqual([3, 4])
      await follower.stop()
    })
  })

  describe('feed', () => {
    it('shows every entry of every stream, each stream in order, at positions that grow as text and never repeat', async () => {
      await writeMixed(given.backend)
      const entries = await collect(given.backend.feed())
      expect(entries).toHaveLength(60)
      const positions = entries.map((entry) => entry.position)
      expect(positions).toEqual(positions.toSorted())
      expect(new Set(positions).size).toBe(60)
      for (let s = 0; s < 6; s++) {
        const mine = entries.filter((entry) => entry.stream === `s/${s}`)
        expect(mine.map((entry) => entry.revision)).toEqual(Array.from({ length: 10 }, (_, i) => i + 1))
        expect(mine).toEqual(await collect(given.backend.read(`s/${s}`)))
      }
    })

    it('goes on after any position with exactly the rest', async () => {
      await writeMixed(given.backend)
      const entries = await collect(given.backend.feed())
      for (const [i, entry] of entries.entries())
        expect(await collect(given.backend.feed({ after: entry.position }))).toEqual(entries.slice(i + 1))
    })

    it('gives commits made one after the other in that order', async () => {
      for (let i = 0; i < 30; i++) await given.backend.commit(append(`s/${(i * 7) % 30}`, 0, i))
      expect(bodies(await collect(given.backend.feed()))).toEqual(Array.from({ length: 30 }, (_, i) => i))
    })

    it('misses nothing and repeats nothing while many write', async () => {
      const follower = follow((signal) => given.backend.feed({ follow: true, signal }))
      await writeMixed(given.backend)
      await follower.has(60)
      await follower.stop()
      expect(follower.entries).toEqual(await collect(given.backend.feed()))
    })

    it('shows what another process commits, whichever of the two is asked', async (context) => {
      needsManyProcesses(given, context)
      const beside = await given.beside()
      const followers = [
        follow((signal) => given.backend.feed({ follow: true, signal })),
        follow((signal) => beside.feed({ follow: true, signal })),
      ]
      const reader = follow((signal) => given.backend.read('from/beside', { follow: true, signal }))
      const work = [given.backend, beside].map(async (backend, b) => {
        for (let i = 0; i < 25; i++) await backend.commit(append(b === 0 ? 'from/here' : 'from/beside', i))
      })
      await Promise.all(work)
      for (const follower of followers) await follower.has(50)
      await reader.has(25)
      const all = await collect(given.backend.feed())
      expect(all).toHaveLength(50)
      for (const follower of followers) expect(follower.entries).toEqual(all)
      for (const follower of [...followers, reader]) await follower.stop()
    })

    it('wakes every one of fifty followers', async () => {
      const followers = Array.from({ length: 50 }, (_, i) =>
        follow((signal) => {
          const from = { follow: true, signal }
          return i % 2 === 0 ? given.backend.feed(from) : given.backend.read('g', from)
        }),
      )
      await given.backend.commit(append('g', 0))
      await Promise.all(followers.map((follower) => follower.has(1)))
      await given.backend.commit(append('g', 1))
      await Promise.all(followers.map((follower) => follower.has(2)))
      await Promise.all(followers.map((follower) => follower.stop()))
    })

    it('waits without keeping the process busy', async () => {
      await given.backend.commit(append('g', 0))
      const followers = [
        follow((signal) => given.backend.feed({ follow: true, signal })),
        follow((signal) => given.backend.read('g', { follow: true, signal })),
      ]
      await Promise.all(followers.map((follower) => follower.has(1)))
      const busy = async () => {
        const before = performance.eventLoopUtilization()
        await new Promise((resolve) => setTimeout(resolve, 300)) // a look at how it waits needs some waiting
        return performance.eventLoopUtilization(before).utilization
      }
      await expect.poll(busy, { timeout: 10_000 }).toBeLessThan(0.5) // others may keep the machine busy for a moment
      await Promise.all(followers.map((follower) => follower.stop()))
    })

    it('stays silent for commits without an entry, and does not lose its place by them', async () => {
      const follower = follow((signal) => given.backend.feed({ follow: true, signal }))
      await given.backend.commit(append('g', 0))
      await given.backend.commit(write('g', 1, { puts: [['k', 1]] }))
      await given.backend.commit(append('g', 1))
      await follower.has(2)
      expect(follower.entries.map((entry) => entry.revision)).toEqual([1, 2])
      await follower.stop()
    })
  })

  describe('abort', () => {
    it('ends a follower without an error, whether it sleeps, reads or has not begun', async () => {
      for (let i = 0; i < 3; i++) await given.backend.commit(append('g', i))
      for (const open of [
        (signal: AbortSignal) => given.backend.feed({ follow: true, signal }),
        (signal: AbortSignal) => given.backend.read('g', { follow: true, signal }),
      ]) {
        expect(await collect(open(AbortSignal.abort()))).toEqual([])

        const midway = new AbortController()
        const seen: number[] = []
        for await (const entry of open(midway.signal)) {
          seen.push(entry.revision)
          midway.abort()
        }
        expect(seen).toEqual([1])

        const follower = follow(open)
        await follower.has(3)
        await follower.stop()
      }
    })

    it('leaves the other followers alone', async () => {
      const [first, second] = [0, 1].map(() => follow((signal) => given.backend.feed({ follow: true, signal })))
      await first!.stop()
      await given.backend.commit(append('g', 0))
      await second!.has(1)
      await second!.stop()
    })
  })
}

/** Six streams of ten entries, written side by side, some with values and some commits without an entry between them. */
async function writeMixed(backend: Backend): Promise<void> {
  const streams = Array.from({ length: 6 }, async (_, s) => {
    for (let i = 0; i < 10; i++) {
      await backend.commit(write(`s/${s}`, i, { entry: { s, i }, puts: [[`v/${s}`, i]] }))
      if (i % 3 === 0) await backend.commit(write(`s/${s}`, i + 1, { puts: [[`cursor/${s}`, i]] }))
    }
  })
  await Promise.all(streams)
}
