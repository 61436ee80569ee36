import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { FunctionSpec } from '../../src/ael/function.ts'
import type { RuntimeOptions } from '../../src/orchestrator/runtime.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { NotFound } from '../../src/protocol/errors.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { sqliteBackend } from '../../src/vsl/sqlite.ts'
import { flowOf, having, runtimeOf } from '../support/flows.ts'
import { inTime, passes, world } from '../support/on-a-clock.ts'
import { tempFolder } from '../support/temp-folder.ts'

describe.each([
  ['memory', async () => memoryBackend()],
  ['sqlite', async () => sqliteBackend({ path: join(await tempFolder(), 'state.db') })],
])('processes with different functions on %s', (_, open) => {
  it('bring every run to its end, each action done once and by one that can', async () => {
    const store = await open()
    onTestFinished(() => store.close())
    const done: string[] = []
    const doing = (who: string, ...names: readonly string[]) =>
      having(Object.fromEntries(names.map((name) => [name, () => void done.push(`${name} by ${who}`)])))
    const soon = { store, patrolMs: 5, leaseTtlMs: 2_000 }
    const start = async (options: Partial<RuntimeOptions>) => {
      const runtime = await runtimeOf({}, { ...soon, ...options })
      onTestFinished(() => runtime.close())
      return runtime
    }
    const desk = await start({ mine: new Set() })
    const ab = await Promise.all(Array.from({ length: 5 }, () => desk.submit(flowOf({ a: {}, b: { after: ['a'] } }))))
    const c = await Promise.all(Array.from({ length: 5 }, () => desk.submit(flowOf({ c: {} }))))
    const workers = [await start(doing('first', 'a', 'b')), await start(doing('second', 'b', 'c'))]
    for (const run of [...ab, ...c]) expect(await run.result()).toMatchObject({ success: true })
    const times = (what: string) => done.filter((one) => one === what).length
    expect([times('a by first'), times('c by second'), done.length]).toEqual([5, 5, 15])
    for (const { errors } of workers) for (const error of errors) expect(error).toBeInstanceOf(NotFound)
  })
})

describe('processes that come and go, each with some of the functions', () => {
  it.each(Array.from({ length: 10 }, (_, seed) => [seed + 1]))('let no run fail (seed %i)', async (seed) => {
    const luck = manualClock({ seed })
    const names = ['a', 'b', 'c']
    const { start, clock } = world({})
    const slow: FunctionSpec = async (_, { signal }) => {
      await clock.sleep(100, signal)
      return 'done'
    }
    const some = () => having(Object.fromEntries(names.filter(() => luck.random() < 0.6).map((name) => [name, slow])))
    const desk = await start({ mine: new Set() })
    const runs = await Promise.all(
      names.map((name, i) => desk.submit(flowOf({ [name]: {}, [names[(i + 1) % 3]!]: { after: [name] } }))),
    )
    for (let i = 0; i < 6; i++) {
      const process = await start(some())
      await passes(clock, Math.floor(luck.random() * 1_500))
      if (luck.random() < 0.5) process.die()
      else await inTime(clock, process.close())
    }
    const whole = await start(having(Object.fromEntries(names.map((name) => [name, slow]))))
    for (const run of runs) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
    expect(whole.errors).toEqual([])
    await inTime(clock, Promise.all([desk.close(), whole.close()]))
  })
})
