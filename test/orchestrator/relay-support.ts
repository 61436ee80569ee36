import { memoryTransport } from '../../src/bus/memory.ts'
import type { Delivery, Transport } from '../../src/bus/transport.ts'
import type { Json } from '../../src/protocol/json.ts'
import type { Backend } from '../../src/vsl/backend.ts'

/** Commits to a graph as the graph itself would: one entry, with so many events. */
export async function tell(store: Backend, graph: string, events = 1, event: Json = {}): Promise<void> {
  const { revision } = await store.head(graph)
  const entry = {
    commit_id: `${graph}-${revision + 1}`,
    at: '2026-01-01T00:00:00.000000Z',
    actor: 'test',
    reason: 'test',
    changes: [],
    events: Array.from({ length: events }, (_, i) => ({
      ...(i % 2 === 0 && { plan_id: `${graph}-plan` }),
      event: {
        event_id: eventId(graph, revision + 1, i),
        event_type: 'context_intent_received',
        event_family: 'intent',
        timestamp: '2026-01-01T00:00:00.000000Z',
        ...(event as object),
      },
    })),
  }
  await store.commit({ stream: graph, expected: revision, entry, inserts: [], puts: [], deletes: [] })
}

/** Valid, and different for every event of every graph in `graphs`. */
export function eventId(graph: string, revision: number, index: number): string {
  const digits = Buffer.from(graph).toString('hex').slice(-12).padStart(12, '0')
  const [r, i] = [revision.toString(16).padStart(8, '0'), index.toString(16).padStart(3, '0')]
  return `${r}-0000-4${i}-8000-${digits}`
}

/** A bus that remembers what it was given, and fails as it is told to. */
export interface FaultyBus extends Transport {
  readonly got: Delivery[]
  readonly batches: number[]
  /** What the next publishes do: nothing wrong; carry none of it, half or all of it and throw; or never answer. */
  readonly faults: ('ok' | 'none' | 'half' | 'all' | 'hang')[]
}

export function faultyBus(): FaultyBus {
  const got: Delivery[] = []
  const batches: number[] = []
  const faults: FaultyBus['faults'] = []
  const inner = memoryTransport()
  return {
    ...inner,
    traits: { ...inner.traits, within: false }, // it stands for one that all processes share
    got,
    batches,
    faults,
    async publish(batch) {
      const fault = faults.shift()
      if (fault === 'hang') return new Promise(() => undefined)
      const carried = { ok: batch.length, none: 0, half: Math.ceil(batch.length / 2), all: batch.length }[fault ?? 'ok']
      batches.push(batch.length)
      got.push(...structuredClone(batch.slice(0, carried)))
      if (fault && fault !== 'ok') throw new Error(`the bus broke after ${fault}`)
    },
  }
}
