import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Adapter } from '../../src/ael/adapter.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { fileAdapter } from '../../src/ael/file.ts'
import { functionAdapter } from '../../src/ael/function.ts'
import type { RunHandle } from '../../src/orchestrator/run.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf, having, runtimeOf, type StepSpec } from '../support/flows.ts'
import { door, inTime, world } from '../support/on-a-clock.ts'
import { tempFolder } from '../support/temp-folder.ts'

const boom = () => {
  throw new Error('boom')
}
const make = () => 'made'
const never = new Promise<never>(() => undefined)
const undoneBy = (name: string, args: Json): StepSpec => ({
  call: 'make',
  binding: { inverse: { action_type: 'function', params: { name, args } } },
})
const compensating = { binding: { on_failure: 'compensate' as const } }

/** Four steps, of which the second cannot be taken back, the last refuses to be, and the first is being taken back when its process dies. */
const FLOW = flowOf({
  one: undoneBy('undo', 'one'),
  final: { call: 'make', after: ['one'], binding: { inverse: 'irreversible', approval: 'none' } },
  two: { ...undoneBy('undo', 'two'), after: ['final'] },
  three: { ...undoneBy('refuse', 'three'), after: ['two'] },
  boom: { after: ['three'], ...compensating },
})

async function cutOff(next: (undo: (name: Json) => null) => Parameters<typeof having>[0]) {
  const called: Json[] = []
  const reached = door()
  const undo = (name: Json) => {
    called.push(name)
    return null
  }
  const refuse = (name: Json) => {
    called.push(name)
    throw new Error('not today')
  }
  const hangs = (name: Json) => {
    undo(name)
    if (name !== 'one') return null
    reached.open()
    return never
  }
  const { start, clock } = world({})
  const first = await start(having({ make, boom, refuse, undo: hangs }))
  const { run_id } = await first.submit(FLOW)
  await inTime(clock, reached.opened)
  first.die()
  const second = await start(having(next(undo)))
  const run = await second.get(run_id)
  const result = await inTime(clock, run.result())
  const close = () => inTime(clock, second.close())
  return { called, run, result, close }
}

async function toldOf(run: RunHandle): Promise<readonly JsonObject[]> {
  const told: JsonObject[] = []
  for await (const { event } of run) if (event.event_family === 'compensation_plan') told.push(event)
  return told
}
const named = (steps: unknown) =>
  (steps as readonly JsonObject[]).map(({ step_id }) =>
    Object.keys(FLOW.ids).find((name) => FLOW.ids[name] === step_id),
  )

describe('a way back that was cut off', () => {
  it('goes on where it was: what was tried in vain is not tried out of its turn, and what began is told once', async () => {
    const { called, run, result, close } = await cutOff((undo) => ({ make, boom, refuse: undo, undo }))
    expect(called).toEqual(['three', 'two', 'one', 'one'])
    const told = await toldOf(run)
    expect(told.map(({ event_type }) => event_type)).toEqual(['rollback_planned', 'rollback_executed'])
    expect(named((told[0]!.payload as JsonObject).steps)).toEqual(['three', 'two', 'one'])
    expect((told[1]!.payload as JsonObject).outcomes).toEqual(result.undone)
    await close()
  })

  it('ends with what it would have come to', async () => {
    const { result, close } = await cutOff((undo) => ({ make, boom, refuse: undo, undo }))
    const { clock, start } = world({})
    const refuse = () => {
      throw new Error('not today')
    }
    const whole = await start(having({ make, boom, refuse, undo: () => null }))
    const { undone } = await inTime(clock, (await whole.submit(FLOW)).result())
    const came = (outcomes: typeof undone) => outcomes!.map(({ action_id: _, ...rest }) => rest)
    expect(came(result.undone)).toEqual(came(undone))
    expect(undone!.map(({ status }) => status)).toEqual(['irreversible', 'failed', 'undone', 'undone'])
    await close()
    await inTime(clock, whole.close())
  })

  it('needs nothing of the next process for what was tried in vain', async () => {
    const { result, close } = await cutOff((undo) => ({ undo }))
    expect(result).toMatchObject({ status: 'failed', error: { message: 'boom' } })
    await close()
  })

  it.each<[string, JsonObject]>([
    ['made', { operation: 'write', path: 'new.txt', content: 'by the run\n' }],
    ['changed', { operation: 'write', path: 'a.txt', content: 'by the run\n' }],
    ['deleted', { operation: 'delete', path: 'a.txt' }],
    ['moved', { operation: 'move', path: 'a.txt', to: 'new.txt' }],
  ])('finds that a file which the run has %s is as it was already', async (_, params) => {
    const root = tempFolder()
    writeFileSync(join(root, 'a.txt'), 'as it was\n')
    const store = memoryBackend()
    const files = await fileAdapter({ root, blobs: { put: (bytes) => store.putBlob(bytes), get: store.getBlob } })
    const reached = door()
    let operations = 0
    const silent: Adapter = {
      ...files,
      async execute(action, call) {
        const outcome = await files.execute(action, call)
        if (++operations < 2) return outcome
        reached.open()
        return never
      },
    }
    const layerOf = (adapter: Adapter) => actionLayer({ adapters: [functionAdapter({ boom }), adapter] })
    const first = await runtimeOf({}, { store, layer: layerOf(silent) })
    const { run_id } = await first.submit(
      flowOf({
        file: { binding: { action_type: 'file_operation', params } },
        boom: { after: ['file'], ...compensating },
      }),
    )
    await reached.opened
    await first.close(AbortSignal.abort())
    const second = await runtimeOf({}, { store, layer: layerOf(files) })
    expect(await (await second.get(run_id)).result()).toMatchObject({ undone: [{ status: 'undone' }] })
    expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('as it was\n')
    expect(existsSync(join(root, 'new.txt'))).toBe(false)
    await second.close()
  })
})
