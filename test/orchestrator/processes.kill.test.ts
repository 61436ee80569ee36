import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { openStore, type StoreOptions } from '../../src/vsl/vsl.ts'
import { type Child, child } from '../support/child.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { suiteNeeds } from '../support/servers.ts'
import { tempFolder } from '../support/temp-folder.ts'

const CONTEXTS = 100
const LONG_LEASE_MS = 20_000
const SHORT_LEASE_MS = 1_000

let workers: Child[] = []
afterEach(async () => {
  for (const worker of workers) worker.resume()
  await Promise.all(workers.map((worker) => worker.kill()))
  workers = []
})

/** Two workers on one store, and somebody who submits and drives nothing. */
function sharing(name: string, place: () => { readonly url: string; readonly options: StoreOptions }): void {
  describe(`two processes on ${name}`, () => {
    async function given(leaseTtlMs: number) {
      const { url, options } = place()
      const store = await openStore(url, options)
      const submitter = await runtimeOf({ work: () => null, held: () => null }, { store, mine: new Set() })
      const start = async (go = '') => {
        const script = new URL('worker-process.ts', import.meta.url)
        const worker = child(script, [url, JSON.stringify(options), String(leaseTtlMs), go])
        workers.push(worker)
        await worker.line('up')
        return worker
      }
      return {
        submitter,
        start,
        async close() {
          await submitter.close()
          await store.close()
        },
      }
    }
    const callsOf = (worker: Child) => worker.lines.filter((line) => line.startsWith('call ')).map((l) => l.slice(5))

    it(`share ${CONTEXTS} contexts, and no action is carried out twice`, async () => {
      const { submitter, start, close } = await given(LONG_LEASE_MS)
      const flows = Array.from({ length: CONTEXTS }, () =>
        flowOf({ a: { call: 'work' }, b: { call: 'work', after: ['a'] }, c: { call: 'work', after: ['a'] } }),
      )
      const both = [await start(), await start()]
      const runs = await Promise.all(flows.map((flow) => submitter.submit(flow)))
      const results = await Promise.all(runs.map((run) => run.result()))
      expect(results.map(({ status }) => status)).toEqual(flows.map(() => 'completed'))
      for (const worker of both) worker.tell('close')
      await Promise.all(both.map((worker) => worker.line('closed')))

      const expected = flows.flatMap(({ plan, ids }) => Object.values(ids).map((id) => `${plan.plan_id}:${id}`))
      expect(both.flatMap(callsOf).sort()).toEqual(expected.sort())
      expect(both.flatMap((worker) => worker.lines.filter((line) => /^(refused|error)/.test(line)))).toEqual([])
      for (const worker of both) expect(callsOf(worker).length).toBeGreaterThan(0)
      await close()
    }, 120_000)

    it('leave a context to whoever took it from one that stood still past its lease', async () => {
      const { submitter, start, close } = await given(SHORT_LEASE_MS)
      const [one, two] = [`${tempFolder()}/go`, `${tempFolder()}/go`]
      const stopped = await start(one)
      const flow = flowOf({ held: {}, after: { call: 'work', after: ['held'] } })
      const run = await submitter.submit(flow)
      const key = (await stopped.line('call ')).slice(5)
      stopped.pause()

      const other = await start(two)
      expect((await other.line('call ')).slice(5)).toBe(key) // both calls under one key
      writeFileSync(two, '')
      expect(await run.result()).toMatchObject({ status: 'completed' })

      writeFileSync(one, '')
      stopped.resume()
      await stopped.line('refused FencedOut')
      expect(callsOf(stopped)).toEqual([key])
      expect(callsOf(other)).toEqual([key, `${flow.plan.plan_id}:${flow.ids.after}`])
      const graph = await submitter.project.context(run.context_id)
      expect(await graph.verify()).toEqual([])
      await close()
    }, 120_000)
  })
}

sharing('sqlite', () => ({ url: `sqlite:${tempFolder()}/state.db`, options: {} }))
await suiteNeeds('redis', (url) => sharing('redis', () => ({ url, options: { prefix: `two-${randomUUID()}` } })))
await suiteNeeds('postgres', (url) =>
  sharing('postgres', () => ({ url, options: { schema: `two_${randomUUID().replaceAll('-', '').slice(0, 12)}` } })),
)
