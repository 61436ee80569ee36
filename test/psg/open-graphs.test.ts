import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { openGraphs } from '../../src/psg/open-graphs.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** The ids that are opened anew when all of them are asked for again, after whatever nobody holds has gone. */
async function reopened(sizes: { readonly [id: string]: number }): Promise<readonly string[]> {
  const opened: string[] = []
  const graphs = openGraphs((id) => {
    opened.push(id)
    return { state: { size: sizes[id] } } as ProjectGraph
  })
  for (const id of Object.keys(sizes)) await graphs.get(id)
  await new Promise(setImmediate) // what was looked at weakly is held until the job ends
  collect()
  opened.length = 0
  for (const id of Object.keys(sizes).reverse()) await graphs.get(id)
  return opened
}

it('keeps the last contexts', async () => {
  const names = Array.from({ length: 66 }, (_, i) => `c${i}`)
  expect(await reopened(Object.fromEntries(names.map((name) => [name, 10])))).toEqual(['c1', 'c0'])
})

it('keeps fewer when they are large', async () => {
  expect(await reopened({ a: 9_000, b: 9_000, c: 9_000 })).toEqual(['a'])
})

it('keeps the last one, however large it is', async () => {
  expect(await reopened({ a: 100, b: 50_000 })).toEqual(['a'])
})
