import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest'
import type { Delivery, Filter, Source, SubscribeOptions, Transport } from '../../src/bus/transport.ts'
import { Closed, FellBehind, InvalidInput, Refused } from '../../src/protocol/errors.ts'

/** A carrier made ready for one test, with nothing on it. */
export interface TransportRig {
  /** The publishing end. */
  readonly transport: Transport
  /** Another listening end of the same carrier, as another process would hold it; where there is only one process, the same end. */
  listener(): Promise<Source>
  /** Cuts the listeners' connections once; absent where there is nothing to cut. */
  readonly interrupt?: () => Promise<void>
  close(): Promise<void>
}

/** Every promise of `transport.ts`. `open` gives a rig of its own to each test. A close in a rig gives handlers about 300 ms. */
export function transportContract(name: string, open: () => Promise<TransportRig>, timeout = 20_000): void {
  describe(`bus/${name} keeps the transport contract`, { timeout }, () => {
    let rig: TransportRig
    let bus: Transport
    beforeEach(async () => {
      rig = await open()
      bus = rig.transport
    }, timeout)
    afterEach(() => rig.close(), timeout)

    const collect = async (filter: Filter = {}, options: SubscribeOptions = {}, source?: Source) => {
      const got: Delivery[] = []
      const subscription = await (source ?? (await rig.listener())).subscribe(filter, (d) => void got.push(d), options)
      return { got, subscription }
    }

    it('carries deliveries unchanged, down to the order of keys', async () => {
      const payload = JSON.parse('{"__proto__": {"a": 1}, "2": 0, "1": [null, true, -0.5, {"": "é\\u0000\\u2028😀"}]}')
      const odd = delivery(1, { event: { z: 1, payload, a: 2 } })
      const { got } = await collect()
      await bus.publish([odd, delivery(2, { plan: undefined, family: undefined })])
      await until(() => got.length === 2)
      expect(JSON.stringify(got[0])).toBe(JSON.stringify(odd))
      expect(got[1]).toEqual(delivery(2, { plan: undefined, family: undefined }))
    })

    it('keeps each graph in order while many interleave', async () => {
      const all = series(1, 2000, (n) => ({ graph: `graph-${(n * 7) % 23}` }))
      const { got } = await collect()
      for (const batch of chunks(all, 150)) await bus.publish(batch)
      await until(() => got.length === all.length)
      expect(outOfOrder(got)).toEqual([])
      expect(ids(got).sort()).toEqual(ids(all).sort())
    })

    it('gives every independent subscriber all of it, in copies of its own', async () => {
      const spoiler = await rig.listener()
      await spoiler.subscribe({}, (d) => {
        Object.assign(d.event, { event_type: 'spoiled' })
      })
      const [a, b] = [await collect({}, {}, spoiler), await collect()]
      const mine = series(1, 20)
      const before = structuredClone(mine)
      await bus.publish(mine)
      for (const d of mine) Object.assign(d.event, { event_type: 'changed after publishing' })
      await until(() => a.got.length === 20 && b.got.length === 20)
      expect(a.got).toEqual(before)
      expect(b.got).toEqual(before)
    })

    it('misses nothing that is published once subscribe has resolved', async () => {
      const { got } = await collect()
      await bus.publish([delivery(1)])
      const late = await collect()
      await bus.publish([delivery(2)])
      await until(() => got.length === 2 && late.got.length === 1)
      expect(ids(late.got)).toEqual([delivery(2).event.event_id])
    })

    it('repeats a batch that is given twice with the same ids, revisions and indexes', async () => {
      const { got } = await collect()
      const batch = series(1, 10)
      await bus.publish(batch)
      await bus.publish(batch)
      await bus.publish([delivery(11)])
      await until(() => got.some((d) => d.revision === 11))
      expect(outOfOrder(got)).toEqual([])
      const byId = new Map(batch.map((d) => [d.event.event_id, d]))
      for (const d of got.slice(0, -1)) expect(d).toEqual(byId.get(d.event.event_id))
      expect(new Set(ids(got)).size).toBe(11)
    })

    it('filters by family, type, graph, context and plan, by one or any of several, all at once', async () => {
      const batch = series(1, 24, (n) => ({
        graph: `g${n % 2}`,
        context: `c${n % 3}`,
        plan: n % 4 === 0 ? undefined : `p${n % 4}`,
        family: n % 5 === 0 ? undefined : ['intent', 'methodology'][n % 2],
        type: `t${n % 6}`,
      }))
      const cases: [Filter, (d: Delivery) => boolean][] = [
        [{ family: 'methodology' }, (d) => d.event.event_family === 'methodology'],
        [{ type: ['t1', 't2'] }, (d) => ['t1', 't2'].includes(d.event.event_type)],
        [{ graph: 'g0' }, (d) => d.graph_id === 'g0'],
        [{ context: 'c2' }, (d) => d.context_id === 'c2'],
        [{ plan: ['p1'] }, (d) => d.plan_id === 'p1'],
        [
          { graph: ['g0', 'g1'], context: 'c1', type: 't4' },
          (d) => d.context_id === 'c1' && d.event.event_type === 't4',
        ],
        [{ graph: 'nowhere' }, () => false],
      ]
      const source = await rig.listener()
      const all = await collect({}, {}, source)
      const taken = await Promise.all(cases.map(([filter]) => collect(filter, {}, source)))
      await bus.publish(batch)
      await until(
        () => all.got.length === 24 && taken.every(({ got }, i) => got.length >= batch.filter(cases[i]![1]).length),
      )
      for (const [i, { got }] of taken.entries()) expect(got.toSorted(byPosition)).toEqual(batch.filter(cases[i]![1]))
    })

    it.each<[string, unknown, unknown, unknown, Partial<{ path: string; rule: string }>]>([
      ['an unknown filter field', { colour: 'red' }, () => 1, {}, { path: 'colour', rule: 'extra_forbidden' }],
      ['a filter value that is no text', { graph: 7 }, () => 1, {}, { path: 'graph', rule: 'text' }],
      ['an empty list', { plan: [] }, () => 1, {}, { path: 'plan', rule: 'text' }],
      ['a filter that is no object', 'graph', () => 1, {}, { path: '', rule: 'type' }],
      ['a handler that is no function', {}, 'handler', {}, { path: 'handler', rule: 'type' }],
      ['an unknown option', {}, () => 1, { retry: 3 }, { path: 'retry', rule: 'extra_forbidden' }],
      ['a limit of nothing', {}, () => 1, { limit: 0 }, { path: 'limit', rule: 'count' }],
      ['an unknown policy', {}, () => 1, { overflow: 'panic' }, { path: 'overflow', rule: 'enum' }],
      ['a group that loses', {}, () => 1, { group: 'g', overflow: 'drop_oldest' }, { rule: 'group_waits' }],
      ['a group without a name', {}, () => 1, { group: '' }, { path: 'group', rule: 'name' }],
      ['an `after` that is no place', {}, () => 1, { after: { index: 0 } }, { path: 'after.position' }],
    ])('refuses %s', async (_, filter, handler, options, problem) => {
      const source = await rig.listener()
      const error = await source.subscribe(filter as Filter, handler as () => void, options as object).catch((e) => e)
      expect(error).toBeInstanceOf(InvalidInput)
      expect(error.problems).toContainEqual(expect.objectContaining(problem))
    })

    it('refuses to publish what is no delivery, and carries nothing of that batch', async () => {
      const { got } = await collect()
      const { event: _, ...bare } = delivery(1)
      const error = await bus.publish([delivery(1), bare as Delivery]).catch((e) => e)
      expect(error).toBeInstanceOf(InvalidInput)
      expect(error.problems).toEqual([expect.objectContaining({ path: '[1].event', rule: 'delivery' })])
      await bus.publish([delivery(2)])
      await until(() => got.length > 0)
      expect(ids(got)).toEqual(ids([delivery(2)]))
    })

    it('publishes an empty batch', async () => {
      await bus.publish([])
    })

    it('shares deliveries among the members of a group, and gives each group all', async (test) => {
      if (!(await groupsOrSkip(test))) return
      const all = series(1, 300, (n) => ({ graph: `graph-${n % 30}` }))
      const [a, b] = [await collect({}, { group: 'one' }), await collect({}, { group: 'one' })]
      const other = await collect({}, { group: 'other' })
      const alone = await collect()
      for (const batch of chunks(all, 20)) await bus.publish(batch)
      await until(() => a.got.length + b.got.length >= 300 && other.got.length === 300 && alone.got.length === 300)
      expect([...ids(a.got), ...ids(b.got)].sort()).toEqual(ids(all).sort())
      expect(outOfOrder(other.got)).toEqual([])
    })

    it('never gives one graph of a group to two members at once', async (test) => {
      const traits = await groupsOrSkip(test)
      if (!traits) return
      if (!traits.inOrder) return test.skip(`groups of bus/${name} share without order`)
      const inHand = new Map<string, number>()
      const handled: Delivery[] = []
      const overlaps: string[] = []
      const handler = async (d: Delivery) => {
        const others = inHand.get(d.graph_id) ?? 0
        if (others > 0) overlaps.push(d.graph_id)
        inHand.set(d.graph_id, others + 1)
        await new Promise((resolve) => setImmediate(resolve))
        inHand.set(d.graph_id, inHand.get(d.graph_id)! - 1)
        handled.push(d)
      }
      for (let i = 0; i < 3; i++) await (await rig.listener()).subscribe({}, handler, { group: 'many' })
      // Ten of one graph in a row: whoever is free would take the next of it while the one before is in another's hands.
      const all = series(1, 300, (n) => ({ graph: `graph-${Math.floor(n / 10) % 7}` }))
      for (const batch of chunks(all, 50)) await bus.publish(batch)
      await until(() => new Set(ids(handled)).size === 300)
      expect(overlaps).toEqual([])
      expect(outOfOrder(handled)).toEqual([])
    })

    it('collects for a group that has no members, from where it was', async (test) => {
      const traits = await groupsOrSkip(test)
      if (!traits) return
      if (!traits.remembered) return test.skip(`bus/${name} forgets a group with its last member`)
      const first = await collect({}, { group: 'durable' })
      await bus.publish(series(1, 10))
      await until(() => first.got.length === 10)
      await first.subscription.close()
      await bus.publish(series(11, 20))
      const second = await collect({}, { group: 'durable', after: '' })
      await bus.publish(series(21, 25))
      await until(() => second.got.some((d) => d.revision === 25))
      expect(ids(second.got)).toEqual(ids(series(11, 25)))
    })

    it('goes on where a group was, wherever it is told to begin', async (test) => {
      const traits = await groupsOrSkip(test)
      if (!traits) return
      if (!traits.remembered) return test.skip(`bus/${name} forgets a group with its last member`)
      const first = await collect({}, { group: 'steady' })
      await bus.publish(series(1, 5))
      await until(() => first.got.length === 5)
      await first.subscription.close()
      await bus.publish(series(6, 8))
      const second = await collect({}, { group: 'steady', after: delivery(50).position })
      await until(() => second.got.length === 3)
      expect(ids(second.got)).toEqual(ids(series(6, 8)))
    })

    it('gives another member of the group what a vanished one had in hand', async (test) => {
      if (!(await groupsOrSkip(test))) return
      const taken = gate()
      const source = await rig.listener()
      const hanging = await source.subscribe({}, hang(taken.open), { group: 'heirs' })
      await bus.publish(series(1, 5))
      await taken.passed
      const heir = await collect({}, { group: 'heirs' })
      await hanging.close()
      await until(() => heir.got.length >= 5)
      expect(ids(heir.got).sort()).toEqual(ids(series(1, 5)).sort())
    })

    it('gives a delivery again to a group whose handler throws, and after the last attempt goes on', async (test) => {
      if (!(await groupsOrSkip(test))) return
      const tries: number[] = []
      const errors: unknown[] = []
      const handler = (d: Delivery) => {
        tries.push(d.revision)
        if (d.revision === 1 || (d.revision === 2 && tries.filter((t) => t === 2).length < 2)) throw new Error('no')
      }
      const options = { group: 'stubborn', attempts: 3, onError: (e: unknown) => void errors.push(e) }
      await (await rig.listener()).subscribe({}, handler, options)
      await bus.publish(series(1, 3))
      await until(() => tries.includes(3))
      expect(tries).toEqual([1, 1, 1, 2, 2, 3])
      expect(errors).toHaveLength(4)
    })

    it('does not let a handler that throws, rejects, hangs or dawdles hurt anybody else', async () => {
      const source = await rig.listener()
      const errors: unknown[] = []
      const onError = (e: unknown) => void errors.push(e)
      const boom = new Error('boom')
      let thrown = 0
      const throwing = () => {
        thrown++
        throw boom
      }
      await source.subscribe({}, throwing, { onError })
      await source.subscribe({}, () => Promise.reject(boom), { onError })
      await source.subscribe({}, () => new Promise(() => undefined), { onError, limit: 10 })
      await source.subscribe({}, () => new Promise((resolve) => setTimeout(resolve, 20)), { onError, limit: 10 })
      const { got } = await collect({}, {}, source)
      for (const batch of chunks(series(1, 200), 20)) await bus.publish(batch)
      await until(() => got.length === 200 && thrown === 200)
      expect(ids(got)).toEqual(ids(series(1, 200)))
      expect(errors.filter((e) => e === boom).length).toBeGreaterThanOrEqual(201)
    })

    it('goes on when even `onError` throws', async () => {
      const warned = gate()
      process.once('warning', warned.open)
      let calls = 0
      const handler = () => {
        calls++
        throw new Error('from the handler')
      }
      const onError = () => {
        throw new Error('from onError')
      }
      await (await rig.listener()).subscribe({}, handler, { onError })
      await bus.publish(series(1, 3))
      await until(() => calls === 3)
      await warned.passed
    })

    it('holds back for a subscriber that waits, and loses nothing', async () => {
      const got: Delivery[] = []
      const handler = async (d: Delivery) => {
        await new Promise((resolve) => setImmediate(resolve))
        got.push(d)
      }
      await (await rig.listener()).subscribe({}, handler, { limit: 3, overflow: 'wait' })
      for (const batch of chunks(series(1, 200), 50)) await bus.publish(batch)
      await until(() => got.length === 200)
      expect(ids(got)).toEqual(ids(series(1, 200)))
    })

    it('bounds what waits by bytes as well', async () => {
      const hold = gate()
      const got: Delivery[] = []
      const handler = async (d: Delivery) => {
        got.push(d)
        await hold.passed
      }
      const options = { limitBytes: 200_000, overflow: 'drop_oldest' } as const
      const subscription = await (await rig.listener()).subscribe({}, handler, options)
      await bus.publish([delivery(1)])
      await until(() => got.length === 1)
      await bus.publish(series(2, 9, () => ({ event: { payload: { filling: 'x'.repeat(100_000) } } })))
      await until(() => subscription.dropped === 6)
      hold.open()
      await until(() => got.length === 3)
      expect(got.map((d) => d.revision)).toEqual([1, 8, 9])
    })

    it('loses the oldest that wait, and counts them', async () => {
      const hold = gate()
      const got: Delivery[] = []
      const handler = async (d: Delivery) => {
        got.push(d)
        await hold.passed
      }
      const subscription = await (await rig.listener()).subscribe({}, handler, { limit: 5, overflow: 'drop_oldest' })
      await bus.publish([delivery(1)])
      await until(() => got.length === 1)
      await bus.publish(series(2, 51))
      await until(() => subscription.dropped === 45)
      hold.open()
      await until(() => got.length === 6)
      expect(got.map((d) => d.revision)).toEqual([1, 47, 48, 49, 50, 51])
    })

    it('ends a subscription that may not wait with FellBehind, and only that one', async () => {
      const source = await rig.listener()
      const hold = gate()
      const errors: unknown[] = []
      const options = { limit: 5, overflow: 'disconnect', onError: (e: unknown) => void errors.push(e) } as const
      const slow = await source.subscribe({}, () => hold.passed, options)
      const { got } = await collect({}, {}, source)
      await bus.publish(series(1, 20))
      await until(() => errors.length > 0 && got.length === 20)
      hold.open()
      expect(await slow.ended).toBeInstanceOf(FellBehind)
      expect(errors).toEqual([expect.any(FellBehind)])
      await slow.close()
    })

    it('resumes after a position, after one delivery of a commit, and from the beginning', async (test) => {
      const source = await rig.listener()
      if (!source.traits.retains) return test.skip(`bus/${name} keeps nothing to resume from`)
      const past = [
        ...series(1, 5),
        ...[0, 1, 2].map((index) => delivery(6, { index })), // one commit, three events
        ...series(7, 10),
      ]
      await bus.publish(past)
      const [commit, middle, all, end] = [
        await collect({}, { after: past[4]!.position }, source),
        await collect({}, { after: past[6]! }, source),
        await collect({}, { after: '' }, source),
        await collect({}, { after: past.at(-1)!.position }, source),
      ]
      await bus.publish(series(11, 15))
      const whole = [...past, ...series(11, 15)]
      await until(() => [commit, middle, all, end].every(({ got }) => got.some((d) => d.revision === 15)))
      expect(ids(commit.got)).toEqual(ids(whole.slice(5)))
      expect(ids(middle.got)).toEqual(ids(whole.slice(7)))
      expect(ids(all.got)).toEqual(ids(whole))
      expect(ids(end.got)).toEqual(ids(series(11, 15)))
    })

    it('joins what was and what comes without a gap, while publishing goes on', async (test) => {
      const source = await rig.listener()
      if (!source.traits.retains) return test.skip(`bus/${name} keeps nothing to resume from`)
      const batches = chunks(
        series(1, 1500, (n) => ({ graph: `graph-${n % 5}` })),
        30,
      )
      const subscribers: { got: Delivery[] }[] = []
      for (const [i, batch] of batches.entries()) {
        await bus.publish(batch)
        if (i % 10 === 5) subscribers.push(await collect({}, { after: '' }, source))
      }
      for (const { got } of subscribers) {
        await until(() => new Set(ids(got)).size === 1500)
        expect(outOfOrder(got)).toEqual([])
      }
    })

    it('refuses a place that it has not come to, as after an older backup was put back', async (test) => {
      const source = await rig.listener()
      if (!source.traits.retains) return test.skip(`bus/${name} keeps nothing to resume from`)
      const refusal = (after: Delivery | string) =>
        source
          .subscribe({}, () => undefined, { after, onError: () => undefined })
          .then(
            ({ ended }) => ended,
            (error) => error,
          )
      for (const published of [[], series(1, 5)]) {
        await bus.publish(published)
        for (const after of [delivery(50), delivery(50).position]) {
          const error = await refusal(after)
          expect(error instanceof InvalidInput || error instanceof Refused, String(error)).toBe(true)
        }
      }
    })

    it('refuses to go back where nothing is kept', async (test) => {
      const source = await rig.listener()
      if (source.traits.retains) return test.skip(`bus/${name} keeps deliveries`)
      await expect(source.subscribe({}, () => undefined, { after: '' })).rejects.toThrow(Refused)
    })

    it('refuses a group where there are none', async (test) => {
      const source = await rig.listener()
      if (source.traits.groups) return test.skip(`bus/${name} has groups`)
      await expect(source.subscribe({}, () => undefined, { group: 'g' })).rejects.toThrow(Refused)
    })

    it('lets a handler finish what it has in hand when it is unsubscribed, and gives it nothing more', async () => {
      const hold = gate()
      const started = gate()
      const seen: string[] = []
      const handler = async (d: Delivery) => {
        seen.push(`began ${d.revision}`)
        started.open()
        await hold.passed
        seen.push(`ended ${d.revision}`)
      }
      const subscription = await (await rig.listener()).subscribe({}, handler)
      const other = await collect()
      await bus.publish(series(1, 10))
      await started.passed
      const closing = subscription.close().then(() => seen.push('closed'))
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
      expect(seen).toEqual(['began 1'])
      hold.open()
      await closing
      await subscription.close()
      expect(await subscription.ended).toBeUndefined()
      await bus.publish(series(11, 12))
      await until(() => other.got.length === 12)
      expect(seen).toEqual(['began 1', 'ended 1', 'closed'])
    })

    it('does not wait for ever for a handler that hangs', async () => {
      const source = await rig.listener()
      const started = gate()
      await source.subscribe({}, hang(started.open))
      await bus.publish([delivery(1)])
      await started.passed
      await source.close()
    })

    it('lets handlers finish what they have been given when it is closed', async () => {
      const source = await rig.listener()
      const hold = gate()
      const began: number[] = []
      const ended: number[] = []
      await source.subscribe({}, async (d) => {
        began.push(d.revision)
        await hold.passed
        ended.push(d.revision)
      })
      await bus.publish([delivery(1)])
      await until(() => began.length === 1)
      const closing = source.close().then(() => ended.push(0))
      hold.open()
      await closing
      await source.close()
      expect(ended[0]).toBe(1)
      expect(ended.at(-1)).toBe(0)
      expect(ended.length - 1).toBe(began.length)
    })

    it('throws Closed after close', async () => {
      const source = await rig.listener()
      const pending = source.events({})
      await source.close()
      await expect(source.subscribe({}, () => undefined)).rejects.toThrow(Closed)
      expect(() => source.events({})).toThrow(Closed)
      for await (const _ of pending) expect.unreachable('it was closed before the first next()')
      await bus.close()
      await expect(bus.publish([delivery(1)])).rejects.toThrow(Closed)
      await expect(bus.subscribe({}, () => undefined)).rejects.toThrow(Closed)
      await bus.close()
    })

    it('iterates in order, and ends without an error when aborted or closed', async () => {
      const source = await rig.listener()
      const aborting = new AbortController()
      const read = async (iterable: AsyncIterable<Delivery>, begun: () => void) => {
        const got: Delivery[] = []
        for await (const d of iterable) {
          got.push(d)
          begun()
        }
        return got
      }
      const [first, second] = [gate(), gate()]
      const aborted = read(source.events({ graph: 'g' }, { signal: aborting.signal }), first.open)
      const closed = read(source.events({}), second.open)
      // An iterable begins with its first `next()`, which nobody can see from outside: publish until both have answered.
      let published = 0
      for (let answered = false; !answered; ) {
        await bus.publish([delivery(++published)])
        answered = await Promise.race([
          Promise.all([first.passed, second.passed]).then(() => true),
          new Promise<boolean>((resolve) => setTimeout(resolve, 50, false)),
        ])
      }
      const { got } = await collect()
      const last = published + 40
      await bus.publish(series(published + 1, last))
      await until(() => got.length === 40)
      aborting.abort()
      for (const reading of [aborted, source.close().then(() => closed)]) {
        const revisions = (await reading).map((d) => d.revision)
        const from = revisions[0] as number
        expect(revisions).toEqual(Array.from({ length: revisions.length }, (_, i) => from + i))
      }
    })

    it('ends at once when its signal is aborted already, and stops when the loop is left', async () => {
      const source = await rig.listener()
      for await (const _ of source.events({}, { signal: AbortSignal.abort() })) expect.unreachable('it was aborted')
      const first = (async () => {
        for await (const d of source.events({})) return d
        return undefined
      })()
      let published = 0
      const publishing = setInterval(() => bus.publish([delivery(++published)]).catch(() => undefined), 20)
      try {
        expect((await first)?.revision).toBeGreaterThan(0)
      } finally {
        clearInterval(publishing)
      }
    })

    it('ends an iteration that is left while nothing comes', async () => {
      const source = await rig.listener()
      const events = source.events({})[Symbol.asyncIterator]()
      const next = events.next()
      await events.return?.()
      expect(await next).toEqual({ done: true, value: undefined })
    })

    it('ends a subscription when its signal is aborted', async () => {
      const aborting = new AbortController()
      const { got, subscription } = await collect({}, { signal: aborting.signal })
      const other = await collect()
      await bus.publish([delivery(1)])
      await until(() => got.length === 1)
      aborting.abort()
      expect(await subscription.ended).toBeUndefined()
      await bus.publish([delivery(2)])
      await until(() => other.got.length === 2)
      expect(got).toHaveLength(1)
    })

    it('carries events of 900 KB', async () => {
      const large = series(1, 5, (n) => ({
        event: { payload: { filling: `${n}é`.repeat(300_000).slice(0, 600_000) } },
      }))
      const { got } = await collect()
      await bus.publish(large)
      await until(() => got.length === 5)
      expect(got).toEqual(large)
      expect(Buffer.byteLength(JSON.stringify(got[0]))).toBeGreaterThan(890_000)
    })

    it('loses nothing and keeps the order when listeners are cut off in the middle', async (test) => {
      if (!rig.interrupt) return test.skip(`bus/${name} has no connection that could be cut here`)
      const all = series(1, 3000, (n) => ({ graph: `graph-${n % 7}` }))
      const alone = await collect({}, { onError: () => undefined })
      const grouped = alone && (await rig.listener()).traits.groups ? await collect({}, { group: 'cut' }) : undefined
      for (const [i, batch] of chunks(all, 100).entries()) {
        await bus.publish(batch)
        if (i % 10 === 5) await rig.interrupt()
      }
      for (const { got } of [alone, ...(grouped ? [grouped] : [])]) {
        await until(() => new Set(ids(got)).size === all.length)
        expect(outOfOrder(got)).toEqual([])
      }
    })

    const groupsOrSkip = async (test: TestContext) => {
      const { traits } = await rig.listener()
      if (!traits.groups) test.skip(`bus/${name} has no groups`)
      return traits.groups
    }
  })
}

interface Shape {
  readonly graph?: string
  readonly context?: string
  readonly plan?: string | undefined
  readonly family?: string | undefined
  readonly type?: string
  readonly index?: number
  readonly event?: object
}

/** The delivery of commit number `n`, with a valid event; positions sort like numbers. */
export function delivery(n: number, shape: Shape = {}): Delivery {
  const graph_id = shape.graph ?? 'g'
  const plan = 'plan' in shape ? shape.plan : 'p'
  const family = 'family' in shape ? shape.family : 'intent'
  const index = shape.index ?? 0
  return {
    position: String(n).padStart(20, '0'),
    graph_id,
    context_id: shape.context ?? graph_id,
    ...(plan !== undefined && { plan_id: plan }),
    revision: n,
    index,
    event: {
      event_id: `00000000-0000-4000-8${String(index).padStart(3, '0')}-${String(n).padStart(12, '0')}`,
      timestamp: '2026-01-01T00:00:00.000000Z',
      ...(family === undefined
        ? { event_type: 'SAInitialized', sa_id: '00000000-0000-4000-8000-00000000000a' } // a profile's events have none
        : { event_type: shape.type ?? 'context_intent_received', event_family: family }),
      ...shape.event,
    },
  }
}

export const series = (from: number, to: number, shape: (n: number) => Shape = () => ({})): Delivery[] =>
  Array.from({ length: to - from + 1 }, (_, i) => delivery(from + i, shape(from + i)))

export const ids = (deliveries: readonly Delivery[]): string[] => deliveries.map((d) => d.event.event_id)

export const chunks = <T>(all: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size))

/** First deliveries that came after a later one of their graph. */
export function outOfOrder(got: readonly Delivery[]): string[] {
  const seen = new Set<string>()
  const last = new Map<string, readonly [number, number]>()
  const wrong: string[] = []
  for (const { graph_id, revision, index, event } of got) {
    if (seen.has(event.event_id)) continue
    seen.add(event.event_id)
    const [r, i] = last.get(graph_id) ?? [-1, -1]
    if (revision < r || (revision === r && index < i)) wrong.push(`${graph_id} ${revision}.${index} after ${r}.${i}`)
    else last.set(graph_id, [revision, index])
  }
  return wrong
}

/** Waits for what must become true; the test's own timeout is the bound. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 5))
}

const byPosition = (a: Delivery, b: Delivery) => (a.position < b.position ? -1 : 1)

const hang = (begun: () => void) => (): Promise<void> => {
  begun()
  return new Promise(() => undefined)
}

function gate() {
  let open: () => void = () => undefined
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open: () => open(), passed }
}
