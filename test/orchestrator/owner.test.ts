import { describe, expect, it } from 'vitest'
import { own } from '../../src/orchestrator/owner.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'

it('is lost in time when its store falls silent, also to an owner whose clock was set back', async () => {
  const time = manualClock()
  let setBack = 0
  const clock = { ...time, now: () => time.now() - setBack }
  const store = { ...memoryBackend({ clock: time }), renew: () => new Promise<never>(() => undefined) }
  const owned = await own('context', { store, clock, holder: thisHolder(clock.uuid()), ttlMs: 1_000 })
  setBack = 3_600_000
  for (let i = 0; i < 20; i++) await time.advance(100)
  expect(owned?.lost.aborted).toBe(true)
  await owned?.release()
})

it('counts its time from when it asked for it, however late the answer comes', async () => {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  let renewals = 0
  const late: Backend = {
    ...store,
    async renew(lease) {
      if (++renewals > 1) throw new Unavailable('the store', 'later')
      const still = await store.renew(lease)
      await clock.sleep(300)
      return still
    },
  }
  const owned = await own('context', { store: late, clock, holder: thisHolder(clock.uuid()), ttlMs: 1_000 })
  for (let at = 0; at < 1_000; at += 50) await clock.advance(50) // asked at 300, so it lasts until 966
  expect(owned?.lost.aborted).toBe(true)
  await owned?.release()
})

it('is given back at once, and leaves no timer behind', async () => {
  const clock = manualClock()
  const store = memoryBackend({ clock })
  let [renewals, releases] = [0, 0]
  const counting: Backend = {
    ...store,
    renew: (lease) => (renewals++ === 0 ? store.renew(lease) : new Promise<never>(() => undefined)),
    release: (lease) => store.release(lease).then(() => void releases++),
  }
  const owned = await own('context', { store: counting, clock, holder: thisHolder(clock.uuid()), ttlMs: 1_000 })
  await clock.advance(300)
  await owned?.release()
  await owned?.release()
  expect({ renewals, releases, sleeping: clock.sleeping }).toEqual({ renewals: 1, releases: 1, sleeping: 0 })
})

describe('a lease that could not be given back', () => {
  const fails = async () => {
    throw new Unavailable('the store', 'later')
  }
  async function scene() {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const holder = thisHolder(clock.uuid())
    const ask = (more = {}) => own('context', { store: { ...store, ...more }, clock, holder })
    const lost = await ask({ release: fails })
    await expect(lost?.release()).rejects.toThrow(Unavailable)
    return { clock, store, ask, lost: lost! }
  }

  it('is taken over at once by the next one of the process, and by that one only', async () => {
    const { ask, lost } = await scene()
    const [next, other] = await Promise.all([ask(), ask()])
    expect(next?.fence).toBe(lost.fence + 1)
    expect(other).toBeUndefined()
    await next?.release()
    const last = await ask()
    expect(last?.fence).toBe(lost.fence + 2)
    await last?.release()
  })

  it('is taken over at once also when its taking got no reply', async () => {
    const { clock, store, ask } = await scene()
    const acquire = async (...args: Parameters<typeof store.acquire>) => {
      await store.acquire(...args)
      return fails()
    }
    await expect(ask({ acquire })).rejects.toThrow(Unavailable)
    const next = await ask()
    expect(next).toBeDefined()
    await next?.release()
    expect(clock.sleeping).toBe(0)
  })

  it('stays with whoever has taken it meanwhile', async () => {
    const { clock, store, ask } = await scene()
    await clock.advance(10_000)
    const theirs = { id: 'theirs', boot: '', pid: 1, started: '' }
    await store.acquire('context', theirs, 10_000)
    expect(await ask()).toBeUndefined()
  })
})
