import { describe, expect, it } from 'vitest'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import {
  FencedOut,
  InvalidInput,
  KeyExists,
  OutcomeUnknown,
  RevisionConflict,
  TooLarge,
  Unavailable,
} from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { thisHolder } from '../../src/vsl/holder.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { commitOnce, type SettleOptions } from '../../src/vsl/settle.ts'
import { collect, write } from '../contracts/backend/given.ts'
import { backendContract } from '../contracts/backend-contract.ts'
import { type Fault, faultAt, faultsBySeed, faultyBackend } from '../support/faulty-backend.ts'

const ours = (expected = 0) =>
  write('g', expected, { entry: { commit_id: `ours ${expected}` }, inserts: [[`k/${expected}`, 1]] })

/** Lets time pass until the work is done. */
async function settled(clock: ManualClock, work: Promise<void>): Promise<void> {
  let done = false
  const over = work.finally(() => {
    done = true
  })
  over.catch(() => undefined)
  while (!done) {
    await clock.advance(100)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return over
}
const settle = (store: Backend, what = ours(), options: Partial<SettleOptions> = {}) => {
  const clock = manualClock()
  return settled(clock, commitOnce(store, what, { clock, ...options }))
}
const faulty = (store: Backend, ...faults: (Fault | undefined)[]) =>
  faultyBackend(store, ({ method, nth }) => (method === 'commit' ? faults[nth] : undefined), manualClock())

describe('commitOnce', () => {
  it.each([
    ['the write had landed', ['lose-reply']],
    ['the call was lost', ['lose-call']],
    ['several replies are lost', ['lose-reply', 'lose-reply', 'lose-reply']],
    ['calls, replies and the server are lost', ['lose-call', 'refuse', 'lose-reply', 'refuse', 'lose-call']],
  ] as const)('lands once when %s', async (_, faults) => {
    const memory = memoryBackend()
    await settle(faulty(memory, ...faults))
    await settle(faulty(memory, ...faults), ours(1))
    const entries = await collect(memory.read('g'))
    expect(entries.map((entry) => entry.body)).toEqual([{ commit_id: 'ours 0' }, { commit_id: 'ours 1' }])
  })

  it('knows its own entry in a conflict it was told at once, because a client resent it', async () => {
    const memory = memoryBackend()
    await memory.commit(ours())
    await settle(memory)
    expect(await collect(memory.read('g'))).toHaveLength(1)
  })

  it("throws the conflict when the entry is somebody else's, with or without a doubt", async () => {
    for (const faults of [[], ['lose-call'], ['lose-reply']] as const) {
      const memory = memoryBackend()
      await memory.commit(write('g', 0, { entry: { commit_id: 'theirs' } }))
      await expect(settle(faulty(memory, ...faults))).rejects.toThrow(RevisionConflict)
      expect(await collect(memory.read('g'))).toHaveLength(1)
    }
  })

  it('finds that it landed although somebody took the stream over before it could ask', async () => {
    const memory = memoryBackend()
    const lease = await memory.acquire('g', thisHolder('one'), 1000)
    await memory.release(lease!)
    const fenced = { ...ours(), fence: lease!.token }
    const takenOver = faultyBackend(
      memory,
      ({ method, nth }) => (method === 'commit' && nth === 0 ? 'lose-reply' : undefined),
      manualClock(),
    )
    const clock = manualClock()
    const work = commitOnce(takenOver, fenced, { clock })
    await new Promise((resolve) => setImmediate(resolve))
    await memory.acquire('g', thisHolder('two'), 1000)
    await memory.commit(write('g', 1, { entry: { commit_id: 'theirs' } }))
    await settled(clock, work)
    await expect(settle(memory, { ...ours(2), fence: lease!.token })).rejects.toThrow(FencedOut)
  })

  it('passes on what is no doubt', async () => {
    const memory = memoryBackend()
    await expect(settle(faulty(memory, 'refuse'))).rejects.toThrow(Unavailable)
    await memory.commit(write('h', 0, { puts: [['k/0', 1]] }))
    await expect(settle(memory)).rejects.toThrow(KeyExists)
    const large = write('g', 0, { entry: { commit_id: 'x', text: 'x'.repeat(33 * 1024 * 1024) } })
    await expect(settle(memory, large)).rejects.toThrow(TooLarge)
    await memory.close()
    await expect(settle(memory)).rejects.toMatchObject({ code: 'closed' })
  })

  it('waits longer and longer, and gives up in doubt after its patience', async () => {
    const clock = manualClock()
    const at: number[] = []
    const start = clock.now()
    const silent = faultyBackend(
      memoryBackend(),
      ({ method }) => {
        if (method === 'commit') at.push(clock.now() - start)
        return method === 'commit' ? 'lose-call' : undefined
      },
      clock,
    )
    await expect(settled(clock, commitOnce(silent, ours(), { clock }))).rejects.toThrow(OutcomeUnknown)
    expect(at.length).toBeGreaterThan(10)
    expect(at.length).toBeLessThan(60)
    expect(at.at(-1)).toBeGreaterThan(20_000)
    expect(at.at(-1)).toBeLessThanOrEqual(30_000)
    await expect(settle(silent, ours(), { patienceMs: 0 })).rejects.toThrow(OutcomeUnknown)
  })

  it.each([
    ['back', -3_600_000],
    ['forward', 3_600_000],
  ])('is as patient as ever when the clock is set %s meanwhile', async (_, set) => {
    const clock = manualClock()
    let [waited, shift] = [0, 0]
    const moved = {
      ...clock,
      now: () => clock.now() + shift,
      async sleep(ms: number) {
        shift = set
        waited += ms
        if (waited > 60_000) throw new Error('for ever')
      },
    }
    const silent = faultyBackend(
      memoryBackend(),
      ({ method }) => (method === 'commit' ? 'lose-call' : undefined),
      clock,
    )
    await expect(commitOnce(silent, ours(), { clock: moved, patienceMs: 5_000 })).rejects.toThrow(OutcomeUnknown)
    expect(waited).toBeGreaterThan(2_500) // each wait is half to one and a half of what counts
    expect(waited).toBeLessThan(7_500)
  })

  it('keeps asking when the store is away just when the entry is looked at', async () => {
    const memory = memoryBackend()
    const store = faultyBackend(
      memory,
      ({ method, nth }) => {
        if (method === 'commit' && nth === 0) return 'lose-reply'
        return method === 'read' && nth < 2 ? 'refuse' : undefined
      },
      manualClock(),
    )
    await settle(store)
    expect(store.calls.filter((call) => call.method === 'read')).toHaveLength(3)
    expect(await collect(memory.read('g'))).toHaveLength(1)
  })

  it('stops when it is told to: in doubt with OutcomeUnknown, before the start with the reason', async () => {
    const memory = memoryBackend()
    await expect(settle(memory, ours(), { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
    expect(await collect(memory.read('g'))).toEqual([])
    const abort = new AbortController()
    const clock = manualClock()
    const work = commitOnce(faulty(memory, 'lose-reply'), ours(), { clock, signal: abort.signal })
    const refused = expect(work).rejects.toThrow(OutcomeUnknown)
    await new Promise((resolve) => setImmediate(resolve))
    abort.abort()
    await refused
  })

  it('repeats a write without an entry, and admits that it cannot tell when that is refused', async () => {
    const memory = memoryBackend()
    const cursor = write('g', 0, { puts: [['cursor', 1]] })
    await settle(faulty(memory, 'lose-reply', 'lose-call'), cursor)
    expect((await memory.getMany(['cursor'])).get('cursor')).toBe(1)
    await expect(settle(faulty(memory, 'lose-reply'), write('g', 0, { inserts: [['new', 1]] }))).rejects.toThrow(
      OutcomeUnknown,
    )
    await expect(settle(memory, write('g', 0, { inserts: [['new', 1]] }))).rejects.toThrow(KeyExists)
  })

  it('refuses an entry that could not be known again', async () => {
    for (const entry of ['text', { commit_id: 7 }, {}, null])
      await expect(settle(memoryBackend(), write('g', 0, { entry }))).rejects.toThrow(InvalidInput)
  })

  it.each([1, 2, 3, 4, 5])('lands every commit of a long history once, with faults by seed %i', async (seed) => {
    const memory = memoryBackend()
    const clock = manualClock({ seed })
    const store = faultyBackend(
      memory,
      faultsBySeed(clock.random, 0.4, ['lose-reply', 'lose-call', 'refuse', 50]),
      clock,
    )
    for (let i = 0; i < 40; i++)
      for (let landed = false; !landed; )
        landed = await settled(clock, commitOnce(store, ours(i), { clock })).then(
          () => true,
          (error) => {
            if (!(error instanceof Unavailable)) throw error
            return false
          },
        )
    const ids = (await collect(memory.read('g'))).map((entry) => (entry.body as { commit_id: string }).commit_id)
    expect(ids).toEqual(Array.from({ length: 40 }, (_, i) => `ours ${i}`))
    expect(store.calls.length).toBeGreaterThan(45)
  })
})

describe('a faulty backend', () => {
  it('does what it is told at the call it is told, and nothing else', async () => {
    const memory = memoryBackend()
    const clock = manualClock()
    await expect(faultyBackend(memory, faultAt('set', 0, 'lose-reply'), clock).set('k', 1)).rejects.toThrow(
      OutcomeUnknown,
    )
    expect(await memory.get('k')).toBe(1)
    await expect(faultyBackend(memory, faultAt('set', 0, 'lose-call'), clock).set('k', 2)).rejects.toThrow(
      OutcomeUnknown,
    )
    expect(await memory.get('k')).toBe(1)
    await expect(faultyBackend(memory, faultAt('get', 0, 'lose-reply'), clock).get('k')).rejects.toThrow(Unavailable)
    const slow = faultyBackend(memory, faultAt('get', 0, 1000), clock)
    let answer: unknown
    const asking = slow.get('k').then((value) => {
      answer = value
    })
    await clock.advance(999)
    expect(answer).toBeUndefined()
    await clock.advance(1)
    await asking
    expect(answer).toBe(1)
    const dead = faultyBackend(memory, faultAt('set', 0, 'crash'), clock)
    const never = Promise.race([
      dead.set('k', 3),
      dead.get('k'),
      new Promise((resolve) => setImmediate(() => resolve('silent'))),
    ])
    expect(await never).toBe('silent')
    expect(await memory.get('k')).toBe(1)
  })
})

backendContract(
  'faulty, without faults,',
  () => {
    const clock = manualClock()
    return { open: async () => faultyBackend(memoryBackend({ clock }), () => undefined, clock), elapse: clock.advance }
  },
  { scanKeys: 2000 },
)
