import type { Clock } from '../../src/protocol/clock.ts'
import { OutcomeUnknown, Unavailable } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'

/**
 * What goes wrong with one call:
 * `refuse`: it fails with Unavailable, and nothing was written;
 * `lose-reply`: it is carried out, but the caller hears OutcomeUnknown;
 * `lose-call`: it is not carried out, and the caller hears OutcomeUnknown just the same;
 * `crash`: it is not carried out, and neither is anything after it: the process is dead;
 * a number: it is held up for so many milliseconds of the clock.
 * Where a method may not fail with OutcomeUnknown the two losses are told as Unavailable.
 */
export type Fault = 'refuse' | 'lose-reply' | 'lose-call' | 'crash' | number

/** A call as it reached the store: `index` counts all calls from 0, `nth` those of the same method. */
export interface Call {
  readonly method: Method
  readonly index: number
  readonly nth: number
}
export type Method = Exclude<keyof Backend, 'traits' | 'facts' | 'close'>

export interface FaultyBackend extends Backend {
  readonly calls: readonly Call[]
}

/** Any store, with faults where `choose` says so: by a script, or by `faultsBySeed`. Waiting is done by the clock. */
export function faultyBackend(
  store: Backend,
  choose: (call: Call) => Fault | undefined,
  clock: Pick<Clock, 'sleep'>,
): FaultyBackend {
  const calls: Call[] = []
  const counts = new Map<Method, number>()
  let crashed = false

  function next(method: Method): Fault | undefined {
    const nth = counts.get(method) ?? 0
    counts.set(method, nth + 1)
    const call = { method, index: calls.length, nth }
    calls.push(call)
    return crashed ? 'crash' : choose(call)
  }
  async function before(method: Method, fault: Fault): Promise<void> {
    if (typeof fault === 'number') await clock.sleep(fault)
    if (fault === 'refuse') throw new Unavailable('the store', `${method} was to fail`)
    if (fault === 'lose-call') throw lost(method)
    if (fault !== 'crash') return
    crashed = true
    await new Promise<never>(() => {})
  }
  const faulty =
    <M extends PromiseMethod>(method: M) =>
    async (...args: Parameters<Backend[M]>): Promise<Answer<M>> => {
      const fault = next(method)
      if (fault !== undefined) await before(method, fault) // without one nothing is awaited: the store takes its copy at once
      const result = await (store[method] as (...args: unknown[]) => Promise<Answer<M>>)(...args)
      if (fault === 'lose-reply') throw lost(method)
      return result
    }
  const faultyWalk = <M extends WalkMethod>(method: M) =>
    async function* (...args: Parameters<Backend[M]>): AsyncGenerator<Item<M>> {
      const fault = next(method)
      if (fault !== undefined) await before(method, fault)
      if (fault === 'lose-reply') throw lost(method)
      yield* (store[method] as (...args: unknown[]) => AsyncIterable<Item<M>>)(...args)
    }

  return {
    calls,
    traits: store.traits,
    get: faulty('get'),
    set: faulty('set'),
    delete: faulty('delete'),
    commit: faulty('commit'),
    getMany: faulty('getMany'),
    head: faulty('head'),
    acquire: faulty('acquire'),
    renew: faulty('renew'),
    release: faulty('release'),
    putBlob: faulty('putBlob'),
    getBlob: faulty('getBlob'),
    forgetBlobs: faulty('forgetBlobs'),
    scan: faultyWalk('scan'),
    read: faultyWalk('read'),
    feed: faultyWalk('feed'),
    blobs: faultyWalk('blobs'),
    close: () => store.close(),
  }
}

/** Each call fails with the given likelihood, always the same ones for the same source of luck. */
export const faultsBySeed =
  (random: () => number, rate: number, faults: readonly Fault[]): ((call: Call) => Fault | undefined) =>
  () =>
    random() < rate ? faults[Math.floor(random() * faults.length)] : undefined

/** The n-th call of a method, from 0, meets this fault; every other one goes well. */
export const faultAt =
  (method: Method, nth: number, fault: Fault): ((call: Call) => Fault | undefined) =>
  (call) =>
    call.method === method && call.nth === nth ? fault : undefined

type WalkMethod = 'scan' | 'read' | 'feed' | 'blobs'
type PromiseMethod = Exclude<Method, WalkMethod>
type Answer<M extends PromiseMethod> = Awaited<ReturnType<Backend[M]>>
type Item<M extends WalkMethod> = ReturnType<Backend[M]> extends AsyncIterable<infer T> ? T : never

const lost = (method: Method) =>
  method === 'commit' || method === 'set'
    ? new OutcomeUnknown(`the reply to ${method}`)
    : new Unavailable('the store', `the reply to ${method} was lost`)
