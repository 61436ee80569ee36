import { EventEmitter, on } from 'node:events'
import { expect, it } from 'vitest'
import { asDelivery } from '../../src/bus/delivery.ts'
import { type DeliveryLog, fromLog } from '../../src/bus/from-log.ts'
import type { Delivery } from '../../src/bus/transport.ts'
import { Corrupt, Unavailable } from '../../src/protocol/errors.ts'
import { delivery, ids, series, transportContract, until } from '../contracts/transport-contract.ts'

/** Kept in a list, and told by an emitter; `cut` ends every reading with an error. */
function listLog() {
  const kept: Delivery[] = []
  const news = new EventEmitter().setMaxListeners(0)
  const log: DeliveryLog = {
    name: 'the list',
    traits: { durable: false, processes: 'one', within: true },
    async append(batch) {
      kept.push(...batch)
      news.emit('more')
    },
    async *read(after, signal) {
      const cut = new AbortController()
      const more = on(news, 'more', { signal: AbortSignal.any([signal, cut.signal]) })
      news.once('cut', () => cut.abort())
      const { position = after as string, index = Number.POSITIVE_INFINITY } = Object(after)
      const isPast = (one: Delivery) => one.position > position || (one.position === position && one.index > index)
      try {
        for (let at = kept.findIndex(isPast); ; ) {
          if (at < 0) at = kept.findIndex(isPast)
          while (at >= 0 && at < kept.length) yield kept[at++] as Delivery
          await more.next()
        }
      } catch {
        if (!signal.aborted) throw new Unavailable('the list', 'it was cut')
      }
    },
    newest: async () => kept.at(-1),
  }
  return { log, kept, cut: () => void news.emit('cut') }
}

transportContract('a log of one’s own', async () => {
  const { log, cut } = listLog()
  const transport = fromLog(log, { graceMs: 300, onError: () => undefined })
  return { transport, listener: async () => transport, interrupt: async () => cut(), close: () => transport.close() }
})

it('reads on after the last delivery when reading fails or ends by itself, and tells of it', async () => {
  const { log, kept } = listLog()
  const reads: unknown[] = []
  const bus = fromLog({
    ...log,
    async *read(after, signal) {
      reads.push(after && typeof after === 'object' ? after.revision : after)
      yield* kept.slice(reads.length - 1, reads.length)
      if (reads.length === 1) throw new Error('kaput')
      if (reads.length > 2) yield* log.read(kept[2]!, signal)
    },
  })
  await bus.publish(series(1, 3))
  const [got, errors]: [Delivery[], unknown[]] = [[], []]
  await bus.subscribe({}, (d) => void got.push(d), { after: '', onError: (error) => errors.push(error) })
  await until(() => got.length === 3)
  await bus.publish([delivery(4)])
  await until(() => got.length === 4)
  expect(ids(got)).toEqual(ids(series(1, 4)))
  expect(reads).toEqual(['', 1, 2])
  expect(errors).toEqual([
    new Unavailable('the list', 'reading it failed with kaput'),
    new Unavailable('the list', 'reading ended by itself, and is begun again'),
  ])
  await bus.close()
})

it('ends a subscription to a log that holds what is no delivery, and says so', async () => {
  const { log, kept } = listLog()
  const bus = fromLog(log)
  kept.push({ ...delivery(1), event: 7 as never })
  const { ended } = await bus.subscribe({}, () => undefined, { after: '', onError: () => undefined })
  expect(await ended).toBeInstanceOf(Corrupt)
  await bus.close()
})

it.each([
  [7, 'it is no delivery;'],
  [{ ...delivery(1), event: 7 }, 'its event is no event;'],
])('says what is no delivery of %j', (held, said) => {
  expect(() => asDelivery(held, 'the log')).toThrow(said)
})

it('closes the log behind its listeners, once', async () => {
  const { log } = listLog()
  const closed: string[] = []
  const bus = fromLog({ ...log, close: async () => void closed.push('the log') })
  const { ended } = await bus.subscribe({}, () => undefined)
  void ended.then(() => closed.push('a listener'))
  await bus.close()
  await bus.close()
  expect(closed).toEqual(['a listener', 'the log'])
})
