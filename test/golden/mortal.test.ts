import { describe, expect, it } from 'vitest'
import { mortal } from '../../src/golden/mortal.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

const born = () => {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  return { clock, store, life: mortal(store, clock) }
}
const WRITE = { stream: 's', expected: 0, entry: { n: 1 }, inserts: [], puts: [], deletes: [] }

/** Has it answered by the time that everything else has had its turn? */
async function settled(work: Promise<unknown>): Promise<boolean> {
  let done = false
  const note = () => {
    done = true
  }
  work.then(note, note)
  await new Promise((resolve) => setImmediate(resolve))
  return done
}

describe('a process that may die', () => {
  it('does what is asked as long as it lives', async () => {
    const { life, store } = born()
    await life.store.commit(WRITE)
    expect(await store.head('s')).toMatchObject({ revision: 1 })
  })

  it('answers nothing after its death, and writes nothing', async () => {
    const { life, store } = born()
    await life.kill()
    expect(await settled(life.store.commit(WRITE))).toBe(false)
    expect(await settled(life.store.scan('')[Symbol.asyncIterator]().next())).toBe(false)
    expect(await store.head('s')).toMatchObject({ revision: 0 })
  })

  it('leaves no timer behind and wakes nobody', async () => {
    const { life, clock } = born()
    const asleep = life.clock.sleep(1_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(clock.sleeping).toBe(1)
    await life.kill()
    expect(clock.sleeping).toBe(0)
    await clock.advance(2_000)
    expect(await settled(asleep)).toBe(false)
  })

  it('leaves its leases to whoever comes next', async () => {
    const { life, store } = born()
    expect(await life.store.acquire('s', thisHolder('one'), 60_000)).toBeDefined()
    expect(await store.acquire('s', thisHolder('two'), 60_000)).toBeUndefined()
    await life.kill()
    expect(await store.acquire('s', thisHolder('two'), 60_000)).toMatchObject({ token: 2 })
  })

  it('lets go of a journal that it follows', async () => {
    const { life, store } = born()
    const following = life.store.feed({ follow: true })[Symbol.asyncIterator]()
    const next = following.next()
    await life.kill()
    await store.commit(WRITE)
    expect(await settled(next)).toBe(false)
  })

  it('stands still until it is let go, and then hears what it had asked', async () => {
    const { life, store } = born()
    await life.hold()
    const asked = life.store.commit(WRITE)
    expect(await settled(asked)).toBe(false)
    expect(await store.head('s')).toMatchObject({ revision: 0 })
    life.letGo()
    await asked
    expect(await store.head('s')).toMatchObject({ revision: 1 })
  })

  it('has lost its leases when it is let go', async () => {
    const { life, store } = born()
    const lease = await life.store.acquire('s', thisHolder('one'), 60_000)
    await life.hold()
    await store.acquire('s', thisHolder('two'), 60_000)
    life.letGo()
    expect(await life.store.renew(lease!)).toBe(false)
  })
})
