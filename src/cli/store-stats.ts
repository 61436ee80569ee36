import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ io }: VerbCall): Promise<number> {
  return withProject(io, async ({ store }) => {
    const counts = {
      contexts: await count(store.scan('id/context/')),
      plans: await count(store.scan('id/plan/')),
      running: await count(store.scan('running/')),
      waiting: await count(store.scan('waiting/')),
      values: await count(store.scan('')),
      own: await count(store.scan('', { own: true })),
      blobs: await count(store.blobs()),
      entries: await count(store.feed()),
    }
    const stats = { ...counts, ...store.traits }
    io.result(stats, () => table(Object.entries(stats).map(([name, value]) => [name, String(value)])))
    return EXIT.done
  })
}

async function count(things: AsyncIterable<unknown>): Promise<number> {
  let found = 0
  for await (const _ of things) found++
  return found
}
