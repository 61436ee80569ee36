import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { paced } from '../../src/orchestrator/reading-pace.ts'
import type { Entry } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { eachTurn } from '../support/each-turn.ts'

/** About a kilobyte each, of which 32 make a stretch. */
const KILOBYTE = 'x'.repeat(1000)
const STRETCH = 33
const A_TURN = 4 * STRETCH

async function* journal(entries: number, body = KILOBYTE): AsyncIterable<Entry> {
  for (let i = 1; i <= entries; i++) yield { stream: 'g', revision: i, position: `${i}`, body }
}

describe('those who read what is long over', () => {
  it('are told four stretches between two turns of the event loop, all of them together', async () => {
    let told = 0
    const most = eachTurn(() => told)
    const read = async () => {
      for await (const _ of paced(journal(500))) told++
    }
    await Promise.all(Array.from({ length: 20 }, read))
    expect(told).toBe(20 * 500)
    expect(most()).toBeLessThanOrEqual(A_TURN)
  })

  it('come on side by side, and in the order of the journal', async () => {
    const told = Array.from({ length: 5 }, () => 0)
    let apart = 0
    const read = async (_: number, reader: number) => {
      for await (const { revision } of paced(journal(500))) {
        expect(revision).toBe(++told[reader]!)
        apart = Math.max(apart, Math.max(...told) - Math.min(...told))
      }
    }
    await Promise.all(told.map(read))
    expect(told).toEqual([500, 500, 500, 500, 500])
    expect(apart).toBeLessThanOrEqual(STRETCH)
  })

  it('do not hold up who has come to the end and waits for news', async () => {
    const store = memoryBackend()
    const append = (expected: number) =>
      store.commit({ stream: 'g', expected, entry: KILOBYTE, inserts: [], puts: [], deletes: [] })
    await append(0)
    const stop = new AbortController()
    let told = 0
    let heard = 0
    const follow = async () => {
      for await (const _ of paced(store.feed({ follow: true, signal: stop.signal }))) heard++
    }
    const read = async () => {
      for await (const _ of paced(journal(2000))) told++
    }
    const reading = [follow(), ...Array.from({ length: 20 }, read)]
    while (heard === 0) await nextTurn()
    for (let news = 1; news <= 10; news++) {
      await nextTurn() // the others go on
      await append(news)
      for (let i = 0; i < 100; i++) await undefined // and this turn does not end
      expect(heard).toBe(1 + news)
    }
    expect(told).toBeGreaterThan(10)
    expect(told).toBeLessThan(20 * 2000)
    stop.abort()
    await Promise.all(reading)
  })

  it('are given what is larger than a stretch alone, one entry each', async () => {
    let told = 0
    const most = eachTurn(() => told)
    const read = async () => {
      for await (const _ of paced(journal(5, 'x'.repeat(100_000)))) told++
    }
    await Promise.all(Array.from({ length: 10 }, read))
    expect([told, most()]).toEqual([50, 4])
  })
})
