import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openSource } from '../src/bus/bus.ts'
import { openRuntime } from '../src/compose.ts'
import { InvalidInput, Refused } from '../src/protocol/errors.ts'
import { flowOf } from './support/flows.ts'
import { itOwns, privatePostgres, privateRedis } from './support/servers.ts'
import { tempFolder } from './support/temp-folder.ts'

describe('a runtime from a config', () => {
  itOwns(privatePostgres)('moves to Postgres and Redis with two lines and nothing else', async ({ url }) => {
    const redis = await privateRedis()
    const runtime = await openRuntime({ vsl: url, bus: [redis.url], functions: { greet: () => 'hello' } })
    const flow = flowOf({ greet: {} })
    const result = await (await runtime.submit(flow)).result()
    expect(result).toMatchObject({ status: 'completed', outputs: { [flow.ids.greet!]: 'hello' } })
    await runtime.flush()
    const source = await openSource(redis.url)
    for await (const { plan_id, event } of source.events({ family: 'pipeline_stage' }, { after: '' })) {
      if (plan_id !== flow.plan.plan_id) continue
      expect(event.event_family).toBe('pipeline_stage')
      break
    }
    const again = await openRuntime({ vsl: url })
    expect(await (await again.get(flow.plan.plan_id)).result()).toMatchObject({ status: 'completed' })
    for (const { close } of [source, again, runtime]) await close() // before their servers go
    await redis.stop()
  })

  it('refuses a folder that is not there, and a key of the wrong length, and leaves nothing open', async () => {
    await expect(openRuntime({ vsl: 'memory:', root: join(tempFolder(), 'absent') })).rejects.toThrow(InvalidInput)
    await expect(openRuntime({ vsl: 'memory:', drift: { watch: true } })).rejects.toThrow('drift needs root')
    await expect(openRuntime({ vsl: 'memory:', encryption_key: 'c2hvcnQ=' })).rejects.toThrow(InvalidInput)
    const state = `file:${tempFolder()}`
    await expect(openRuntime({ vsl: state, bus: ['wss://x'] })).rejects.toThrow(Refused)
    await (await openRuntime({ vsl: state })).close() // the lock was let go
  })

  it('holds no folder against anything unless it is told one', async () => {
    const runtime = await openRuntime({ vsl: 'memory:' })
    onTestFinished(() => runtime.close())
    expect(runtime.folder).toBeUndefined()
  })

  it('applies the rules of its config to what changes behind its back, as it happens', async () => {
    const root = tempFolder()
    writeFileSync(join(root, 'notes.md'), 'a\n')
    const rules = [{ match: '**', strategy: 'files' as const }]
    const runtime = await openRuntime({ vsl: 'memory:', root, drift: { watch: true, settle_ms: 20, rules } })
    onTestFinished(() => runtime.close())
    const graph = await runtime.folder!.graph()
    const size = () => [...graph.state.nodesOf('files')].map(({ data }) => (data as unknown as { size: number }).size)
    expect(size()).toEqual([2])
    writeFileSync(join(root, 'notes.md'), 'longer\n')
    await expect.poll(size, { timeout: 15_000 }).toEqual([7])
    expect(await runtime.folder!.findings()).toEqual([])
  })

  it('keeps files and runs in one graph when the folder belongs to their context', async () => {
    const root = tempFolder()
    const write = { action_type: 'file_operation', params: { operation: 'write', path: 'a.txt', content: 'new\n' } }
    const flow = flowOf({ write: { binding: write } })
    const context = flow.plan.context_id
    const runtime = await openRuntime({ vsl: 'memory:', root, drift: { context } })
    onTestFinished(() => runtime.close())
    await runtime.project.create(flow.context, { actor: 'test', reason: 'it is to be there first' })
    const run = await runtime.submit({ ...flow, context })
    expect(await run.result()).toMatchObject({ status: 'completed' })
    const graph = await runtime.project.context(context)
    const [file] = [...graph.state.nodesOf('files')]
    expect((await graph.why('file', file!.id)).map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['context', 'plan', 'step', 'action', 'file']),
    )
    const dry = await runtime.rollback(run.run_id, { dryRun: true })
    expect(dry.plan.files).toMatchObject([{ path: 'a.txt' }])
    expect(await runtime.rollback(run.run_id)).toMatchObject({
      status: 'done',
      files: [{ path: 'a.txt', result: 'done' }],
    })
  })
})
