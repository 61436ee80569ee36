import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import { rollback } from '../../src/orchestrator/rollback.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { Refused, Unavailable } from '../../src/protocol/errors.ts'
import { openGraph } from '../../src/psg/graph.ts'
import { flowOf } from '../support/flows.ts'
import { door, heldCommit, inTime, passes, until, world } from '../support/on-a-clock.ts'

const takenBackBy = (name: string) => ({
  call: 'make',
  binding: { inverse: { action_type: 'function', params: { name } } },
})

/** A run that has ended, and two processes that could take it back; the first is at `undoTwo` until it is told to stop, or may go on. */
async function ended(mayGoOn: Promise<unknown> = new Promise(() => undefined)) {
  const calls: string[] = []
  const undoTwo = (_: unknown, { signal }: { readonly signal: AbortSignal }) => {
    calls.push('two')
    if (calls.length > 1) return null
    return new Promise<null>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('stopped')))
      void mayGoOn.then(() => resolve(null))
    })
  }
  const functions = { make: () => 1, undoOne: () => void calls.push('one'), undoTwo }
  const { start, clock } = world(functions)
  const runtime = await start()
  const two = { ...takenBackBy('undoTwo'), after: ['one'] }
  const run = await runtime.submit(flowOf({ one: takenBackBy('undoOne'), two }))
  await inTime(clock, run.result())
  const layer = actionLayer({ clock, adapters: [functionAdapter(functions)] })
  const rollbackBy = async (process: Awaited<ReturnType<typeof start>>) =>
    rollback({ graph: await process.project.context(run.context_id), layer }, run.run_id)
  return { start, clock, calls, runtime, run, functions, layer, rollbackBy }
}

/** A process that stands still, its lease too, from the first commit on that says so until it is let go. */
async function frozenAt(start: Awaited<ReturnType<typeof ended>>['start'], says: string) {
  const { seen, reached, letGo } = heldCommit(says)
  let isFrozen = false
  void reached.then(() => {
    isFrozen = true
  })
  const slow = await start({ mine: new Set() }, (store) => ({
    ...seen(store),
    renew: (lease) => (isFrozen ? Promise.resolve(false) : store.renew(lease)),
  }))
  return { slow, reached, letGo }
}

interface Stopped {
  readonly stopped: Runtime
  /** Its timers, which stand still with it. */
  readonly timers: ManualClock
  readonly first: Promise<unknown>
  readonly reached: Promise<void>
  readonly letGo: () => void
}

/** A rollback whose process is stopped in its midst for longer than its lease: another takes everything back, and when it goes on it does nothing more. */
async function isOvertaken(
  { clock, calls, runtime, run, rollbackBy }: Awaited<ReturnType<typeof ended>>,
  { stopped, timers, first, reached, letGo }: Stopped,
): Promise<void> {
  first.catch(() => undefined) // expected below
  await reached
  await passes(clock, 15_000) // until its lease is over
  expect(await inTime(clock, rollbackBy(runtime))).toMatchObject({ status: 'done', left: [] })
  letGo()
  await expect(inTime(timers, first)).rejects.toThrow(Refused)
  expect(calls).toEqual(['two', 'one'])
  expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
  await inTime(clock, runtime.close())
  await inTime(timers, stopped.close())
}

describe('a rollback', () => {
  it('is left to others once they may have begun, and they take everything back', async () => {
    const { start, clock, calls, runtime, run, rollbackBy } = await ended()
    let isLost = false
    const silent = await start({ mine: new Set() }, (store) => ({
      ...store,
      async renew(lease) {
        if (!isLost || !lease.stream.startsWith('rollback/')) return store.renew(lease)
        await store.release(lease)
        return false
      },
    }))
    const first = rollbackBy(silent)
    first.catch(() => undefined) // expected below
    await until(clock, () => calls.length > 0)
    isLost = true
    await expect(inTime(clock, first)).rejects.toThrow(Refused)
    expect(calls).toEqual(['two'])
    expect(await inTime(clock, rollbackBy(runtime))).toMatchObject({ status: 'done', left: [] })
    expect(calls).toEqual(['two', 'two', 'one'])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, Promise.all([runtime.close(), silent.close()]))
  })

  it('is refused the end of what it had begun once others have gone on with it', async () => {
    const { start, clock, calls, runtime, run, rollbackBy } = await ended(Promise.resolve())
    const { slow, letGo, reached } = await frozenAt(start, 'execution_completed')
    const first = rollbackBy(slow)
    first.catch(() => undefined) // expected below
    await inTime(clock, reached)
    await passes(clock, 15_000) // until its lease is over
    expect(await inTime(clock, rollbackBy(runtime))).toMatchObject({ status: 'done', left: [] })
    letGo()
    await expect(inTime(clock, first)).rejects.toThrow(Refused)
    expect(calls).toEqual(['two', 'two', 'one'])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, Promise.all([runtime.close(), slow.close()]))
  })

  it('that was stopped over a commit begins nothing of it once others may have, though no timer has told it', async () => {
    const given = await ended(Promise.resolve())
    const { start, clock, rollbackBy } = given
    const timers = manualClock()
    const { seen, letGo, reached } = heldCommit('execution_started', 'reply')
    const stopped = await start({ mine: new Set(), clock: { ...timers, now: clock.now } }, seen)
    const first = rollbackBy(stopped)
    await isOvertaken(given, { stopped, timers, first, reached, letGo })
  })

  it('that was stopped over an approval carries nothing out once others may have', async () => {
    const given = await ended(Promise.resolve())
    const { start, clock, run, functions } = given
    const timers = manualClock()
    const [asked, answered] = [door(), door()]
    const approval: Adapter['approval'] = async () => {
      asked.open()
      await answered.opened
      return { policy: 'always_allow', tool: 'undo', arguments: {}, description: 'Undo?' }
    }
    const layer = actionLayer({ clock: timers, adapters: [{ ...functionAdapter(functions), approval }] })
    const stopped = await start({ mine: new Set(), clock: { ...timers, now: clock.now } })
    const graph = await stopped.project.context(run.context_id)
    const first = rollback({ graph, layer }, run.run_id)
    await isOvertaken(given, { stopped, timers, first, reached: asked.opened, letGo: answered.open })
  })

  it('does not begin where others have begun since it looked, and leaves them undisturbed', async () => {
    const mayGoOn = door()
    const { start, clock, calls, runtime, run, rollbackBy } = await ended(mayGoOn.opened)
    const { slow, letGo, reached } = await frozenAt(start, 'rollback_planned')
    const late = rollbackBy(slow)
    late.catch(() => undefined) // expected below
    await inTime(clock, reached)
    await passes(clock, 15_000) // until its lease is over
    const first = rollbackBy(runtime)
    await until(clock, () => calls.length > 0)
    letGo()
    await expect(inTime(clock, late)).rejects.toThrow(Refused)
    mayGoOn.open()
    expect(await inTime(clock, first)).toMatchObject({ status: 'done', left: [] })
    expect(calls).toEqual(['two', 'one'])
    expect(await (await runtime.project.context(run.context_id)).verify()).toEqual([])
    await inTime(clock, Promise.all([runtime.close(), slow.close()]))
  })

  it('goes on where another was cut off, also when the plan leaves memory whenever it is not looked at', async () => {
    const { start, clock, calls, runtime, run, layer } = await ended()
    const dying = await start({ mine: new Set() })
    const forgetful = ({ project: { store } }: typeof dying) =>
      openGraph(store, run.context_id, { clock, keepEnded: 0 })
    void rollback({ graph: await forgetful(dying), layer }, run.run_id)
    await until(clock, () => calls.length > 0)
    dying.die()
    await passes(clock, 60_000) // until its lease is over
    const graph = await forgetful(runtime)
    expect(await inTime(clock, rollback({ graph, layer }, run.run_id))).toMatchObject({ status: 'done', left: [] })
    const traces = (await graph.query({ kind: 'trace' })).nodes.map(({ data }) => data.status)
    expect(traces.sort()).toEqual(['completed', 'completed', 'failed'])
    expect(await graph.verify()).toEqual([])
    await inTime(clock, runtime.close())
  })

  it('is reported as it went though its lease cannot be given back', async () => {
    const { start, clock, calls, runtime, rollbackBy } = await ended()
    calls.push('an earlier one')
    const process = await start({ mine: new Set() }, (store) => ({
      ...store,
      release: () => Promise.reject(new Unavailable('the store', 'later')),
    }))
    expect(await inTime(clock, rollbackBy(process))).toMatchObject({ status: 'done' })
    await inTime(clock, Promise.all([runtime.close(), process.close()]))
  })
})
