import { describe, expect, it } from 'vitest'
import { digestOf } from '../../../src/protocol/json.ts'
import { collect, type Given, needsManyProcesses } from './given.ts'

/** Bytes under their digest. */
export function blobs(given: Given): void {
  describe('blobs', () => {
    it('keeps bytes under their sha256', async () => {
      const bytes = new TextEncoder().encode('some output')
      const digest = await given.backend.putBlob(bytes)
      expect(digest).toBe(digestOf(bytes))
      const found = await given.backend.getBlob(digest)
      expect(found).toBeInstanceOf(Uint8Array)
      expect(Buffer.from(found!).equals(bytes)).toBe(true)
    })

    it.each([0, 1, 255, 64 * 1024, 1024 * 1024])('keeps %i bytes of any kind', async (size) => {
      const bytes = Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >>> 8)) & 0xff)
      const found = await given.backend.getBlob(await given.backend.putBlob(bytes))
      expect(Buffer.from(found!).equals(bytes)).toBe(true)
    })

    it('keeps the part of a larger buffer that it was given', async () => {
      const part = new Uint8Array([1, 2, 3, 4, 5]).subarray(1, 3)
      expect([...(await given.backend.getBlob(await given.backend.putBlob(part)))!]).toEqual([2, 3])
    })

    it('keeps what it was given, whatever is written into that memory meanwhile', async () => {
      const bytes = Buffer.from([1, 2, 3]) // a Buffer's slice is not a copy
      const putting = given.backend.putBlob(bytes)
      bytes.fill(0)
      expect([...(await given.backend.getBlob(await putting))!]).toEqual([1, 2, 3])
    })

    it('keeps one blob however often it is put, also by twenty at once', async () => {
      const bytes = new Uint8Array(1000).fill(7)
      const digests = await Promise.all(Array.from({ length: 20 }, () => given.backend.putBlob(bytes)))
      expect(new Set([...digests, await given.backend.putBlob(bytes)]).size).toBe(1)
      expect(await collect(given.backend.blobs())).toEqual([digests[0]])
    })

    it('takes more room for each, if it says how much it takes', async (context) => {
      const room = async () => (await given.backend.facts?.())?.bytes
      const before = await room()
      context.skip(before === undefined, 'it does not say how much room it takes')
      await given.backend.putBlob(new Uint8Array(1024 * 1024).fill(1))
      expect((await room())! - before!).toBeGreaterThan(0.9 * 1024 * 1024) // some of its pages may have been free
    })

    it('lists every blob', async () => {
      expect(await collect(given.backend.blobs())).toEqual([])
      const digests = await Promise.all(
        Array.from({ length: 300 }, (_, i) => given.backend.putBlob(new TextEncoder().encode(`blob ${i}`))),
      )
      expect((await collect(given.backend.blobs())).sort()).toEqual(digests.sort())
    })

    it('has nothing for a digest that was never put', async () => {
      expect(await given.backend.getBlob(digestOf('nobody'))).toBeUndefined()
    })

    it('shows neither in values nor in own keys nor in the feed', async () => {
      await given.backend.putBlob(new Uint8Array([1]))
      expect(await collect(given.backend.scan(''))).toEqual([])
      expect(await collect(given.backend.scan('', { own: true }))).toEqual([])
      expect(await collect(given.backend.feed())).toEqual([])
    })

    it('is seen by another process', async (context) => {
      needsManyProcesses(given, context)
      const beside = await given.beside()
      const digest = await given.backend.putBlob(new Uint8Array([1, 2]))
      expect([...(await beside.getBlob(digest))!]).toEqual([1, 2])
    })
  })
}
