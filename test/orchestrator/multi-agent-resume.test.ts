import { describe, expect, it } from 'vitest'
import { actionLayer } from '../../src/ael/ael.ts'
import { type FunctionSpec, functionAdapter } from '../../src/ael/function.ts'
import { type MultiAgentFlow, runMultiAgentFlow } from '../../src/orchestrator/multi-agent.ts'
import { mapBreaches } from '../../src/orchestrator/profiles/map.ts'
import { type ManualClock, manualClock } from '../../src/protocol/clock.ts'
import type { Json, JsonObject } from '../../src/protocol/json.ts'
import type { Collab, CollabMode, Plan } from '../../src/protocol/types.ts'
import { openProject } from '../../src/psg/project.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import {
  call,
  collabDocument,
  contextDocument,
  dyingStore,
  passing,
  planDocument,
  roleDocument,
  saying,
} from '../support/agents.ts'

const review = { action_type: 'function', params: { name: 'review', args: { $from: 'step' } } }
interface Given {
  readonly mode: CollabMode
  readonly session?: (ids: { readonly [step: string]: string }) => NonNullable<MultiAgentFlow['session']>
  /** Works for longer than any token lasts. */
  readonly hangs?: string
}
const ranks = { ann: 2, bob: 1 }
const FLOWS: { readonly [name: string]: Given } = {
  'with a coordinator who reviews': { mode: 'orchestrated', session: () => ({ review }) },
  'in turns': { mode: 'round_robin' },
  'of two who review each other': { mode: 'pair', session: () => ({ review }) },
  'that is asked all at once and has a chief': { mode: 'broadcast', session: () => ({ conflicts: { ranks } }) },
  'of whoever is idle': { mode: 'swarm' },
  'of whoever is idle, where two write the same': {
    mode: 'swarm',
    session: ({ b, c }) => ({ conflicts: { ranks, writes: { [b!]: ['readme'], [c!]: ['readme'] } } }),
  },
  'whose tokens expire': { mode: 'orchestrated', session: () => ({ review, token_ms: 500, retakes: 1 }), hangs: 'a' },
}

function flowOf(name: string, clock: ManualClock, done: string[]) {
  const { mode, session, hangs } = FLOWS[name]!
  const context = contextDocument(clock)
  const plan = planDocument(context, { a: {}, b: { after: ['a'] }, c: { after: ['a'] } }, clock)
  const roles = [roleDocument('dev', clock)]
  const collab = collabDocument(context, mode, ['ann:dev', 'bob:dev'], clock)
  const work: FunctionSpec = async (args, { idempotency_key, signal, run }) => {
    done.push(idempotency_key)
    if (hangs !== undefined && run?.step_id === plan.ids[hangs] && args !== null) await clock.sleep(60_000, signal)
    // Long enough that one answer is committed while the other is not.
    for (let i = 0; i < 5 && args === 'bob'; i++) await clock.sleep(50, signal)
    return args
  }
  const adapter = functionAdapter({ work, review: (args, call) => work(args, call) })
  const ael = actionLayer({ adapters: [adapter], clock, graceMs: 10 })
  const binding = { action_type: 'function', params: { name: 'work', args: { $turn: 'participant_id' } } }
  const bindings = { steps: Object.fromEntries(Object.values(plan.ids).map((id) => [id, binding])) }
  const modules = { ...saying({ context, plan, collab }), role: () => ({ output: { roles } }) }
  const flow: MultiAgentFlow = { bindings, ...(session && { session: session(plan.ids) }) }
  return { context, plan, options: (store: Backend) => call<MultiAgentFlow>(store, modules, { ael, flow, clock }) }
}

describe.each(Object.keys(FLOWS))('a session %s', (name) => {
  it('that is cut off between any two store calls goes on as if nothing had been', async () => {
    const undisturbed = await disturbed(Number.POSITIVE_INFINITY)
    expect(undisturbed.calls).toBeGreaterThan(20)
    for (let before = 1; before <= undisturbed.calls; before++) {
      const { summary, done } = await disturbed(before)
      expect(summary, `a crash before store call ${before}`).toEqual(undisturbed.summary)
      expect(new Set(done), `a crash before store call ${before}`).toEqual(new Set(undisturbed.done))
    }
  }, 240_000)

  it('leaves the same bytes in the journal with the same clock', async () => {
    const journal = async () => {
      const clock = manualClock({ seed: 11 })
      const store = memoryBackend({ clock })
      await passing(clock, runMultiAgentFlow(flowOf(name, clock, []).options(store)))
      const entries: Json[] = []
      for await (const { stream, revision, body } of store.feed()) entries.push({ stream, revision, body })
      return JSON.stringify(entries)
    }
    const first = await journal()
    expect(await journal()).toBe(first)
    expect(first).toContain('MAPSessionCompleted')
  })

  async function disturbed(before: number) {
    const clock = manualClock()
    const store = memoryBackend({ clock })
    const done: string[] = []
    const { context, plan, options } = flowOf(name, clock, done)
    const process = dyingStore(store, before)
    await passing(clock, Promise.race([runMultiAgentFlow(options(process.store)), process.died]))
    const completed = await completedKeys(store, context.context_id)
    const cut = done.length
    const result = await passing(clock, runMultiAgentFlow(options(store)))
    for (const key of completed) expect(done.slice(cut), 'what was completed is not done again').not.toContain(key)
    const graph = await (await openProject(store, { clock })).context(context.context_id)
    expect(await graph.verify()).toEqual([])
    expect(mapBreaches({ events: result.events })).toEqual([])
    const told = (result.events as { event_type: string; payload: JsonObject }[]).filter(({ event_type }) =>
      event_type.startsWith('MAP'),
    )
    const turns = told
      .filter(({ event_type }) => event_type === 'MAPTurnDispatched')
      .map(({ payload }) => payload.turn_number)
    expect(new Set(turns).size).toBe(turns.length)
    const names = Object.fromEntries(Object.entries(plan.ids).map(([step, id]) => [id, step]))
    const summary = {
      success: result.success,
      error: result.error,
      statuses: (result.output?.plan as Plan | undefined)?.steps.map(({ status }) => status),
      collab: (result.output?.collab as Collab | undefined)?.status,
      outputs: Object.fromEntries(
        Object.entries((result.output?.steps ?? {}) as JsonObject).map(([id, output]) => [names[id], output]),
      ),
      told: told.map(({ event_type }) => event_type).sort(),
    }
    return { summary, done, calls: process.calls() }
  }
})

/** Keys of actions whose end is committed. */
async function completedKeys(store: Backend, context: string): Promise<string[]> {
  const found: string[] = []
  for await (const { body } of store.read(context))
    for (const { key, after } of (
      body as { changes: { key: string; after?: { data: { status?: string; idempotency_key?: string } } }[] }
    ).changes)
      if (key.includes('/action/') && after?.data.status === 'completed') found.push(after.data.idempotency_key!)
  return found
}
