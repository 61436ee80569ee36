import { expect, it } from 'vitest'
import { own } from '../../src/orchestrator/owner.ts'
import { manualClock } from '../../src/protocol/clock.ts'
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
