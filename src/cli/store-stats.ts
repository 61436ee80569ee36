import { INDEX } from '../psg/indexes.ts'
import { EXIT, type Io, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ io }: VerbCall): Promise<number> {
  return withProject(io, async ({ store }) => {
    const things: { readonly [name: string]: AsyncIterable<unknown> } = {
      contexts: store.scan(INDEX.id('context', '')),
      plans: store.scan(INDEX.id('plan', '')),
      runs_running: store.scan(INDEX.running('')),
      runs_waiting: store.scan(INDEX.resting('')),
      runs_ended: store.scan('ended/'),
      confirms_waiting: store.scan(INDEX.waiting('')),
      values: store.scan(''),
      own: store.scan('', { own: true }),
      blobs: store.blobs(),
      entries: store.feed(),
    }
    const counts: { [name: string]: number } = {}
    for (const [name, found] of Object.entries(things)) counts[name] = await count(found, name, io)
    const bytes = (await store.facts?.())?.bytes
    const stats = { ...counts, ...(bytes !== undefined && { bytes }), ...store.traits }
    io.result(stats, () => table(Object.entries(stats).map(([name, value]) => [name, String(value)])))
    return EXIT.done
  })
}

async function count(things: AsyncIterable<unknown>, name: string, io: Io): Promise<number> {
  let found = 0
  for await (const _ of things) {
    if (found++ % OFTEN === 0) io.progress(`counting ${name}`)
    io.signal.throwIfAborted()
  }
  return found
}
const OFTEN = 1_000
