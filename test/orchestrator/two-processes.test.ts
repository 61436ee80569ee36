import { describe, expect, it } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { Closed } from '../../src/protocol/errors.ts'
import type { Run } from '../../src/psg/change.ts'
import type { Backend, Entry, Write } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { lostCancel } from '../support/two-processes/journal.ts'
import { LEASE_MS } from '../support/two-processes/life.ts'
import { simulateTwo } from '../support/two-processes/simulate.ts'
import { witness } from '../support/two-processes/witness.ts'
import type { Tampering } from '../support/two-processes/world.ts'

const SEEDS = 80

describe('two processes in a simulated world', () => {
  it(`keep every promise under ${SEEDS} seeds, whatever is wished for and whoever is killed, frozen or closed`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { faults, trace } = await simulateTwo(seed)
      expect({ seed, faults, trace: faults.length > 0 ? trace : [] }).toEqual({ seed, faults: [], trace: [] })
    }
  }, 300_000)

  it('keep them also when one of the two has not all the functions: it leaves to the other what it cannot do', async () => {
    const missing = [['work'], ['flaky'], ['undo'], ['boom'], ['work', 'flaky', 'undo', 'boom']]
    for (let seed = 1; seed <= SEEDS / 2; seed++) {
      const lacks = missing[seed % missing.length]!
      const { faults, trace } = await simulateTwo(seed, { lacks })
      expect({ seed, faults, trace: faults.length > 0 ? trace : [] }).toEqual({ seed, faults: [], trace: [] })
    }
  }, 300_000)

  it('do the same again under the same seed', async () => {
    const [once, again] = [await simulateTwo(3), await simulateTwo(3)]
    expect(again).toEqual(once)
  })
})

describe('the simulated world notices', { timeout: 120_000 }, () => {
  it('a status that changes without an event', async () => {
    await expectNoticed(/came to be .*, but was last told to be/, { switched: new Set(['event.pipeline_stage']) })
  })

  it('a cancel that is acknowledged and lost', async () => {
    const withoutCancel = (field: string, value: unknown) =>
      field === 'requested' && value === 'cancel' ? undefined : value
    await expectNoticed(/a cancel was lost/, {
      worlds: SEEDS, // whoever asked remembers it: only another owner does not know
      wishes: ['decide', 'signal', 'cancel'],
      store: (store) =>
        changed(store, { commit: (write) => store.commit(JSON.parse(JSON.stringify(write, withoutCancel)) as Write) }),
    })
  })

  it('a cancel that another wish takes the place of', () => {
    const asks = (was: object, now: object) => ({ changes: [{ key: 'context/plan/run/r', was, now }], events: [] })
    const entries = [asks({}, { requested: 'cancel' }), asks({ requested: 'cancel' }, { requested: 'pause' })]
    const inTurn = entries.map((body, i) => ({
      stream: 'context',
      revision: i + 1,
      position: `${i + 1}`,
      body,
    })) as Entry[]
    const run = { run_id: 'r' } as Run
    expect(lostCancel(inTurn, run)).toEqual(['a cancel was lost: another wish took its place'])
    expect(lostCancel(inTurn.slice(0, 1), run)).toEqual([])
  })

  it('an owner that writes after another has taken over', async () => {
    await expectNoticed(/a write landed under token \d+ when the owner had \d+/, {
      store: (store) => changed(store, { commit: ({ fence: _, ...write }) => store.commit(write) }),
      worlds: 60,
    })
  })

  it('rows that are left in an index', async () => {
    await expectNoticed(/the row (running|waiting|timer)\/.* is left/, {
      store: (store) => changed(store, { commit: (write) => store.commit({ ...write, deletes: [] }) }),
    })
  })

  it('a run that nobody takes up', async () => {
    await expectNoticed(/a run neither ended nor said what it waits for/, {
      store: (store) => changed(store, { acquire: async () => undefined }),
    })
  })

  it('a refusal that does not fit the wish', async () => {
    const refuseCancel = async (store: Backend, write: Write) => {
      if (JSON.stringify(write).includes('"requested":"cancel"')) throw new Closed('the runtime')
      await store.commit(write)
    }
    await expectNoticed(/^cancel: Closed/, {
      wishes: ['cancel'],
      store: (store) => changed(store, { commit: (write) => refuseCancel(store, write) }),
    })
  })
})

describe('the witness of the simulated world', () => {
  type Name = 'left' | 'right'

  async function scene() {
    const faults: string[] = []
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const seen = witness<Name>('context', faults)
    const commits = async (name: Name, data: object) => {
      const { revision } = await store.head('context')
      const entry = {
        changes: [{ key: 'context/plan/action/a', after: { data: { idempotency_key: 'key', ...data } } }],
      }
      const write = { stream: 'context', expected: revision, entry, inserts: [], puts: [], deletes: [] }
      await seen.seen(store, name).commit(write as Write)
    }
    await commits('left', { status: 'running', attempts: 3 })
    return {
      faults,
      seen,
      owns: async (name: Name) => {
        await clock.advance(LEASE_MS)
        await seen.seen(store, name).acquire('context', { id: name, boot: '', pid: 1, started: '' }, LEASE_MS)
      },
      completes: (name: Name) => commits(name, { status: 'completed' }),
    }
  }

  it('calls it a fault when an owner repeats what has ended', async () => {
    const { faults, seen, owns, completes } = await scene()
    await owns('left')
    seen.called('left', 'key')()
    expect(faults).toEqual([])
    await completes('left')
    seen.called('left', 'key')()
    expect(faults).toEqual(['key ran again after its end was committed'])
  })

  it('calls it a fault when more is called than was committed', async () => {
    const { faults, seen, owns } = await scene()
    await owns('left')
    for (let i = 0; i < 3; i++) seen.called('left', 'key')()
    expect(faults).toEqual([])
    seen.called('left', 'key')()
    expect(faults).toEqual(['key was called before its attempt was committed'])
  })

  it('calls it a fault when an owner does not stop what it does before another may take over', async () => {
    const { faults, seen, owns } = await scene()
    const stop = new AbortController()
    await owns('left')
    seen.called('left', 'key', stop.signal)
    seen.called('left', 'key', AbortSignal.abort())
    await owns('right')
    expect(faults).toEqual(['key goes on though its lease is over'])
    seen.called('right', 'key', stop.signal)
    seen.frozen('right')
    await owns('left')
    expect(faults).toHaveLength(1)
  })

  it('excuses a call that left before another owner ended it, but not one that left afterwards', async () => {
    const { faults, seen, owns, completes } = await scene()
    await owns('left')
    const arrives = seen.called('left', 'key')
    await owns('right')
    await completes('right')
    arrives()
    expect(faults).toEqual([])
    seen.called('left', 'key')()
    expect(faults).toEqual(['key ran again after its end was committed'])
  })

  it('excuses whoever was frozen while his lease ran out, until he owns the context again', async () => {
    const { faults, seen, owns, completes } = await scene()
    await owns('left')
    seen.frozen('left')
    await owns('right')
    await completes('right')
    seen.called('left', 'key')()
    expect(faults).toEqual([])
    await owns('left')
    seen.called('left', 'key')()
    expect(faults).toEqual(['key ran again after its end was committed'])
  })
})

/** In some world, soon: not every one comes to what is broken. */
async function expectNoticed(fault: RegExp, tampering: Tampering & { worlds?: number }): Promise<void> {
  const heard = new Set<string>()
  for (let seed = 1; seed <= (tampering.worlds ?? 20); seed++) {
    const { faults } = await simulateTwo(seed, tampering)
    if (faults.some((message) => fault.test(message))) return
    for (const message of faults) heard.add(message)
  }
  expect([...heard]).toContainEqual(expect.stringMatching(fault))
}

const changed = (store: Backend, methods: Partial<Backend>): Backend =>
  new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
