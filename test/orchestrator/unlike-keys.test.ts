import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { manualClock } from '../../src/protocol/clock.ts'
import { NotFound } from '../../src/protocol/errors.ts'
import { withEncryption } from '../../src/vsl/encrypted.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { inTime, passes } from '../support/on-a-clock.ts'

const [OLD, NEW] = ['2025', '2026'].map((id) => ({ id, key: randomBytes(32) })) as [Key, Key]
type Key = { readonly id: string; readonly key: Buffer }

it('takes up the runs that its keys open, and leaves the others to a process that has theirs, naming it once', async () => {
  const clock = manualClock()
  const inner = memoryBackend({ clock })
  const done: string[] = []
  const functions = { a: () => void done.push('a'), b: () => void done.push('b') }
  const start = async (keys: readonly Key[], mine?: ReadonlySet<string>) => {
    const store = await withEncryption(inner, keys)
    const runtime = await runtimeOf(functions, {
      store,
      clock,
      leaseTtlMs: 500,
      patrolMs: 50,
      ...(mine && { mine }),
    })
    onTestFinished(() => inTime(clock, runtime.close()))
    return runtime
  }
  const before = await start([OLD], new Set())
  const worker = await start([OLD])
  const after = await start([NEW, OLD], new Set())
  const waiting = { binding: { action_type: 'wait', params: { ms: 1_000 } } } as const
  const sealed = [
    await after.submit(flowOf({ a: {} })),
    await after.submit(flowOf({ wait: waiting, a: { after: ['wait'] } })),
  ]
  const opened = [
    await before.submit(flowOf({ b: {} })),
    await before.submit(flowOf({ wait: waiting, b: { after: ['wait'] } })),
  ]
  for (const { plan_id } of opened)
    expect(await inTime(clock, (await before.get(plan_id)).result())).toMatchObject({ success: true })
  await passes(clock, 1_000)
  expect(done).toEqual(['b', 'b'])
  expect(worker.errors.filter((error) => error instanceof NotFound)).toEqual([
    expect.objectContaining({ what: 'key', id: '2026' }),
  ])
  await start([NEW, OLD])
  for (const run of sealed) expect(await inTime(clock, run.result())).toMatchObject({ success: true })
  expect(done.toSorted()).toEqual(['a', 'a', 'b', 'b'])
})
