import { expect, it } from 'vitest'
import { INDEX, type Whereabouts } from '../../src/psg/indexes.ts'
import { openPlans } from '../../src/psg/open-plans.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { collect, write } from '../contracts/backend/given.ts'
import { countingScans } from '../support/counting-scans.ts'

const where = (group: string): Whereabouts => ({ graph: 'g', group })
const name = (n: number) => String(n).padStart(6, '0')
const groups = async (plans: AsyncIterable<Whereabouts>) => (await collect(plans)).map(({ group }) => group)
type Puts = readonly (readonly [string, Whereabouts])[]
const given = async (puts: Puts) => {
  const store = memoryBackend()
  await store.commit(write('g', 0, { puts }))
  return store
}

it('gives the plans whose runs have not ended in the order of their ids, from any of them on', async () => {
  const all = Array.from({ length: 1_234 }, (_, n) => name(n))
  const store = await given(all.map((plan, n) => [INDEX[n % 7 < 3 ? 'running' : 'resting'](plan), where(plan)]))
  expect(await groups(openPlans(store))).toEqual(all)
  expect(await groups(openPlans(store, { after: all[700]! }))).toEqual(all.slice(701))
  expect(await groups(openPlans(store, { after: all.at(-1)! }))).toEqual([])
})

it('asks for nothing that has ended', async () => {
  const ended = Array.from({ length: 5_000 }, (_, n) => [INDEX.id('plan', name(n)), where(name(n))] as const)
  const store = await given([...ended, [INDEX.running('a'), where('a')]])
  const { store: counting, seen } = countingScans(store)
  expect(await groups(openPlans(counting))).toEqual(['a'])
  expect(seen()).toBe(2) // it runs, and is looked for there twice
})

it.each([
  ['laid down', INDEX.running, INDEX.resting],
  ['taken up', INDEX.resting, INDEX.running],
])('sees a run that is %s between two looks, and sees it once', async (_, before, after) => {
  const store = await given([[before('p'), where('p')]])
  let looks = 0
  const moving: Backend = {
    ...store,
    async *scan(prefix, from) {
      yield* store.scan(prefix, from)
      if (++looks === 1) await store.commit(write('g', 0, { puts: [[after('p'), where('p')]], deletes: [before('p')] }))
    },
  }
  expect(await groups(openPlans(moving))).toEqual(['p'])
})
