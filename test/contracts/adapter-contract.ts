import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, type TestContext, vi } from 'vitest'
import { newAction } from '../../src/ael/action.ts'
import type { Action } from '../../src/ael/adapter.ts'
import { type ActionLayerOptions, actionLayer } from '../../src/ael/ael.ts'
import type { ActionLayer, CallOptions, EventDraft } from '../../src/ael/layer.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import { ActionError, InvalidInput, NotFound, TooLarge } from '../../src/protocol/errors.ts'
import { costBudgetEvent, runtimeExecutionEvent } from '../../src/protocol/events.ts'
import { digestOf, type JsonObject } from '../../src/protocol/json.ts'
import { answers } from './adapter/answers.ts'
import { type AdapterRig, type Given, thrown } from './adapter/rig.ts'
import { wayBack } from './adapter/way-back.ts'

export type { AdapterRig }

/** Every promise of `adapter.ts`, kept by an adapter inside the layer. `open` gives a rig of its own to each test. */
export function adapterContract(name: string, open: () => Promise<AdapterRig>): void {
  describe(`ael/${name} keeps the adapter contract`, () => {
    let rig: AdapterRig
    let clock: ManualClock
    let events: EventDraft[]
    let layers: ActionLayer[]

    beforeEach(async () => {
      rig = await open()
      clock = manualClock()
      events = []
      layers = []
    })
    afterEach(async () => {
      for (const layer of layers) await layer.close()
      await rig.close?.()
    })

    const layerWith = (options: ActionLayerOptions = {}): ActionLayer => {
      const layer = actionLayer({
        clock,
        emit: (event) => void events.push(event),
        gate: () => ({ verdict: 'approved' }), // or what always asks would never be done
        ...(rig.child && { child: rig.child }),
        ...options,
        adapters: [rig.adapter],
      })
      layers.push(layer)
      return layer
    }
    const action = (params: JsonObject, more: Partial<Action> = {}): Action =>
      newAction(
        { action_type: rig.adapter.action_type, executor_kind: rig.adapter.executor_kind, params, ...more },
        clock,
      )
    const failure = (params: JsonObject, call?: CallOptions) => thrown(layerWith().execute(action(params), call))

    const given: Given = {
      get rig() {
        return rig
      },
      get events() {
        return events
      },
      layerWith,
      action,
    }
    answers(given)
    wayBack(given)

    it('does what it is asked and tells the start and the end', async () => {
      const asked = action(rig.works.params)
      const result = await layerWith().execute(asked)
      expect(result).toMatchObject({ action_id: asked.action_id, status: 'completed', output: rig.works.output })
      expect(events.map((event) => event.event_type)).toEqual([
        expect.stringMatching(/_started$/),
        expect.stringMatching(/_completed$/),
      ])
      for (const event of events) expect(validEvent(event, clock).event_id).toBeTypeOf('string')
    })

    it('gives what survives a trip through JSON', async () => {
      const { output } = await layerWith().execute(action(rig.works.params))
      expect(JSON.parse(JSON.stringify(output ?? null))).toEqual(output ?? null)
    })

    it('refuses parameters that cannot work before anything starts, and names the path', async () => {
      expect(rig.refused.length).toBeGreaterThan(0)
      const layer = layerWith()
      for (const { params, path } of rig.refused) {
        for (const door of [
          layer.check(action(params)),
          layer.execute(action(params)),
          layer.attempt(action(params)),
        ]) {
          const error = await thrown(door)
          if (path === undefined) expect(error).toBeInstanceOf(NotFound)
          else expect(pathsOf(error), `of ${JSON.stringify(params)}`).toContain(path)
        }
      }
      expect(events).toEqual([])
    })

    it('lacks nothing of what works, and names what it refuses because it does not have it', () => {
      const layer = layerWith()
      expect(layer.lacks(action(rig.works.params))).toBeUndefined()
      const lacks = rig.refused
        .filter(({ path }) => path === undefined)
        .map(({ params }) => layer.lacks(action(params)))
      if (rig.adapter.lacks)
        for (const lack of lacks) {
          expect(lack).toMatchObject({ what: expect.any(String), name: expect.any(String) })
          expect(lack!.known ?? []).not.toContain(lack!.name)
        }
      else expect(lacks.filter((lack) => lack !== undefined)).toEqual([])
      for (const { params } of rig.refused) expect(() => layer.lacks(action(params))).not.toThrow()
    })

    it('begins nothing that was aborted before', async () => {
      const error = await failure(rig.works.params, { signal: AbortSignal.abort() })
      expect(error).toMatchObject({ code: 'action_aborted', retryable: false })
      expect(events).toEqual([])
    })

    it('ends the work itself when it is aborted in the middle', async (context) => {
      const { hangs, underWay } = needed(context, rig, 'hangs')
      const controller = new AbortController()
      const ended = thrown(layerWith().execute(action(hangs), { signal: controller.signal }))
      await underWay()
      controller.abort()
      expect(await settledIn(clock, ended)).toMatchObject({ code: 'action_aborted', retryable: false })
      await nothingRemains(rig)
      expect(events.at(-1)).toMatchObject({ status: 'cancelled' })
    })

    it('ends the work itself when its time is up', async (context) => {
      const { hangs, underWay } = needed(context, rig, 'hangs')
      const ended = thrown(layerWith().execute(action(hangs, { timeout_ms: 5_000 })))
      await underWay()
      await clock.advance(5_000)
      expect(await settledIn(clock, ended)).toMatchObject({ code: 'action_timed_out', retryable: true })
      await nothingRemains(rig)
      expect(events.at(-1)).toMatchObject({ event_type: 'execution_failed', status: 'failed' })
    })

    it('ends the work itself when the layer is closed', async (context) => {
      const { hangs, underWay } = needed(context, rig, 'hangs')
      const layer = layerWith()
      const ended = thrown(layer.execute(action(hangs)))
      await underWay()
      const closed = layer.close()
      expect(await settledIn(clock, ended)).toMatchObject({ code: 'action_aborted' })
      await closed
      await nothingRemains(rig)
    })

    it('is not disturbed by an abort that comes too late', async () => {
      const controller = new AbortController()
      const layer = layerWith()
      const result = await layer.execute(action(rig.works.params), { signal: controller.signal })
      controller.abort()
      expect(result.output).toEqual(rig.works.output)
      expect((await layer.execute(action(rig.works.params))).output).toEqual(rig.works.output)
    })

    it('says that a failure may pass', async (context) => {
      const { failsForNow } = needed(context, rig, 'failsForNow')
      expect(await failure(failsForNow)).toMatchObject({ code: 'action_failed', retryable: true })
      expect(events.at(-1)).toMatchObject({ status: 'failed', payload: { error: { retryable: true } } })
    })

    it('is attempted again, under the same key, after a failure that may pass', async (context) => {
      const { failsForNow } = needed(context, rig, 'failsForNow')
      const asked = action(failsForNow, { retry: { strategy: 'fixed', max_attempts: 3, delay_ms: 10 } })
      const ended = thrown(layerWith().execute(asked))
      expect(await settledIn(clock, ended)).toBeInstanceOf(ActionError)
      const starts = events.filter((event) => event.event_type.endsWith('_started'))
      expect(starts.map((event) => event.payload.attempt)).toEqual([1, 2, 3])
      expect(new Set(starts.map((event) => ('execution_id' in event ? event.execution_id : ''))).size).toBe(3)
    })

    it('says that a failure is for good, and is not attempted again', async () => {
      const asked = action(rig.failsForGood, { retry: { strategy: 'fixed', max_attempts: 5, delay_ms: 0 } })
      const error = await thrown(layerWith().execute(asked))
      expect(error).toMatchObject({ code: 'action_failed', retryable: false })
      expect(events.filter((event) => event.event_type.endsWith('_started'))).toHaveLength(1)
    })

    it('fails when its output is above the limit', async () => {
      const error = await thrown(layerWith({ maxOutputBytes: 1_024 }).execute(action(rig.large)))
      expect(error).toMatchObject({ code: 'action_failed', retryable: false })
      expect((error as ActionError).cause).toBeInstanceOf(TooLarge)
    })

    it('puts a large output into the blobs and says where', async () => {
      const blobs = new Map<string, Uint8Array>()
      const put = async (bytes: Uint8Array) => {
        const digest = digestOf(bytes)
        blobs.set(digest, bytes)
        return digest
      }
      const layer = layerWith({ inlineBytes: 256, blobs: { put, get: async (digest) => blobs.get(digest) } })
      const { output, output_ref } = await layer.execute(action(rig.large))
      expect(JSON.parse(Buffer.from(blobs.get(output_ref?.digest ?? '') ?? []).toString())).toEqual(output)
    })

    it('keeps calls that run side by side apart', async () => {
      const layer = layerWith()
      const results = await Promise.all(Array.from({ length: 12 }, () => layer.execute(action(rig.works.params))))
      for (const { output } of results) expect(output).toEqual(rig.works.output)
      expect(new Set(results.map(({ action_id }) => action_id)).size).toBe(12)
    })

    it('fails when what comes out has not the shape it promised', async (context) => {
      const { misshapen } = needed(context, rig, 'misshapen')
      expect(await failure(misshapen)).toMatchObject({ code: 'action_failed' })
    })

    it('never shows a secret in an event, an error or on the console', async (context) => {
      const { leaks } = needed(context, rig, 'leaks')
      const { result: error, printed } = await overheard(() => failure(leaks.params))
      const seen = inspect([error, events, printed], { depth: 20, showHidden: true, maxStringLength: null })
      expect(error).toBeInstanceOf(ActionError)
      expect(seen).toContain('[redacted]')
      expect(seen).not.toContain(leaks.secret)
    })

    it('passes the idempotency key on, the same at every attempt', async (context) => {
      const { changes, keys } = needed(context, rig, 'keys')
      const layer = layerWith()
      const asked = action(changes, { idempotency_key: 'key-of-this-work' })
      await layer.attempt(asked, { attempt: 1 })
      await layer.attempt(asked, { attempt: 2 })
      const mine = keys().filter((key) => key.includes('key-of-this-work'))
      expect(mine).toHaveLength(2)
      expect(new Set(mine).size).toBe(1)
    })

    it('can be closed twice', async () => {
      await layerWith().execute(action(rig.works.params))
      await rig.adapter.close?.()
      await rig.adapter.close?.()
    })
  })
}

const pathsOf = (error: unknown): readonly string[] => {
  if (!(error instanceof InvalidInput)) throw error
  return error.problems.map(({ path }) => path)
}

/** What the test is about, or the end of the test with the reason. */
function needed<K extends 'hangs' | 'failsForNow' | 'misshapen' | 'leaks' | 'keys'>(
  context: TestContext,
  rig: AdapterRig,
  part: K,
) {
  const reason = rig.never?.[part]
  if (reason !== undefined) context.skip(reason)
  if (rig[part] === undefined) throw new Error(`the rig has no ${part}, and does not say why`)
  return rig as AdapterRig & Required<Pick<AdapterRig, K | 'underWay' | 'changes'>>
}

/** Moves time on, for whoever waits between attempts or for an end, until the promise has settled. */
async function settledIn<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let settled = false
  const done = promise.finally(() => {
    settled = true
  })
  while (!settled) {
    await clock.advance(10)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return done
}

/** The other side notices a moment later that a connection or a process has ended. */
async function nothingRemains(rig: AdapterRig): Promise<void> {
  if (rig.remains === undefined) throw new Error('the rig does not say what remains of its work')
  for (let look = 0; look < 500 && (await rig.remains()).length > 0; look++)
    await new Promise((resolve) => setTimeout(resolve, 10))
  expect(await rig.remains()).toEqual([])
}

function validEvent(draft: EventDraft, clock: ManualClock) {
  const { event_family, ...fields } = draft
  return event_family === 'runtime_execution'
    ? runtimeExecutionEvent(fields as Parameters<typeof runtimeExecutionEvent>[0], clock)
    : costBudgetEvent(fields, clock)
}

/** What the work gives, and everything that was printed meanwhile. */
async function overheard<T>(work: () => Promise<T>): Promise<{ result: T; printed: string }> {
  const printed: unknown[] = []
  const hear = (...said: unknown[]) => void printed.push(...said)
  const spies = (['log', 'info', 'warn', 'error', 'debug'] as const).map((method) =>
    vi.spyOn(console, method).mockImplementation(hear),
  )
  const streams = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, 'write').mockImplementation((chunk) => {
      hear(String(chunk))
      return true
    }),
  )
  try {
    const result = await work()
    return { result, printed: inspect(printed, { depth: 20 }) }
  } finally {
    for (const spy of [...spies, ...streams]) spy.mockRestore()
  }
}
