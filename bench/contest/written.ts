import type { EntryBody } from '../../src/psg/change.ts'
import type { Write } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { chainOf, runtimeOf } from '../../test/support/flows.ts'
import { figure, type Table } from '../report.ts'

/** How many bytes of each kind of thing a step of a chain writes: as values, and in the journal's entries. */
export async function writtenByKind(steps: number): Promise<Table['rows']> {
  const bytes = new Map<string, { values: number; journal: number }>()
  const add = (kind: string, where: 'values' | 'journal', value: unknown) => {
    const sum = bytes.get(kind) ?? { values: 0, journal: 0 }
    sum[where] += JSON.stringify(value).length
    bytes.set(kind, sum)
  }
  const store = memoryBackend()
  const commit = (write: Write): Promise<void> => {
    for (const [key, value] of [...write.inserts, ...write.puts]) add(kindOf(key), 'values', [key, value])
    const { changes = [], events = [], ...rest } = (write.entry ?? {}) as unknown as Partial<EntryBody>
    for (const change of changes) add(kindOf(change.key), 'journal', change)
    for (const event of events) add('events', 'journal', event)
    add('the entry itself', 'journal', rest)
    return store.commit(write)
  }
  const runtime = await runtimeOf({}, { store: { ...store, commit } })
  const run = await runtime.submit(chainOf(steps))
  bytes.clear() // the plan itself is not what a step writes
  await run.result()
  await runtime.close()
  const sorted = [...bytes].sort(([, a], [, b]) => b.values + b.journal - a.values - a.journal)
  const all = sorted.reduce((sum, [, { values, journal }]) => sum + values + journal, 0)
  const rowOf = (values: number, journal: number) => ({
    'values, bytes/step': figure(values / steps),
    'journal, bytes/step': figure(journal / steps),
    share: `${figure(((values + journal) / all) * 100)} %`,
  })
  return Object.fromEntries(sorted.map(([kind, { values, journal }]) => [kind, rowOf(values, journal)]))
}

/** Keys are graph/group/kind/id; indexes begin with their own word. */
function kindOf(key: string): string {
  const parts = key.split('/')
  return parts.length >= 4 && parts[1] !== '-' ? parts[2]! : 'indexes'
}
