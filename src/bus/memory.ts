import { systemClock } from '../protocol/clock.ts'
import { Closed } from '../protocol/errors.ts'
import { checkMember, history as historyField } from './check-options.ts'
import { checkBatch } from './delivery.ts'
import { fanOut, type History } from './fan-out.ts'
import { type SourceOptions, source } from './source.ts'
import type { Transport } from './transport.ts'

export interface MemoryTransportOptions extends SourceOptions {
  /** Where to look for deliveries of before the subscription; without it, `after` is refused. */
  readonly history?: History
}

/** Handlers of this process, each with its own queue and its own copies. A group lives while it has members. */
export function memoryTransport(options: MemoryTransportOptions = {}): Transport {
  checkMember('the memory bus', options, { history: historyField })
  const { clock = systemClock, history } = options
  const carrier = fanOut({ history, clock })
  const traits = {
    retains: history !== undefined,
    durable: false,
    processes: 'one',
    within: true,
    groups: { inOrder: true, remembered: false },
  } as const
  const listening = source('the memory bus', traits, carrier.feed, options)
  let closed = false

  return {
    ...listening,
    async publish(batch) {
      if (closed) throw new Closed('the memory bus')
      checkBatch(batch)
      await carrier.publish(batch)
    },
    close() {
      closed = true
      return listening.close()
    },
  }
}
