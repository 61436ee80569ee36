import { describe, expect, it } from 'vitest'
import { recorded } from '../../src/drift/desk.ts'
import { type InvariantWatch, watchInvariants } from '../../src/drift/invariants.ts'
import type { Runtime } from '../../src/orchestrator/runtime.ts'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { FindingRecord } from '../../src/psg/change.ts'
import { takeApart } from '../../src/psg/document.ts'
import type { ProjectGraph } from '../../src/psg/graph.ts'
import { move } from '../../src/psg/moves.ts'
import { flowOf, runtimeOf } from '../support/flows.ts'
import { BY, contextOf, graphOf, META } from './given.ts'

const until = async (done: () => boolean): Promise<void> => {
  await expect.poll(done, { interval: 10 }).toBe(true)
}
const ids = (watch: InvariantWatch) => watch.breaches().map(({ breach }) => breach?.invariant)

/** A plan that waits for a signal, so that it goes on while the graph is changed under it. */
async function waiting(): Promise<{ runtime: Runtime; graph: ProjectGraph; go: () => Promise<void> }> {
  const runtime = await runtimeOf({})
  const context_id = systemClock.uuid()
  const graph = await runtime.project.create(contextOf(context_id), BY)
  const flow = flowOf({ wait: { binding: { action_type: 'wait', params: { signal: 'go' } } } })
  const run = await runtime.submit({ ...flow, context: context_id, plan: { ...flow.plan, context_id } })
  return {
    runtime,
    graph,
    async go() {
      await runtime.signal(run.plan_id, 'go')
      await run.result()
    },
  }
}

describe('the protocol’s invariants', () => {
  it('refuses options that it could not keep to', async () => {
    const graph = await graphOf()
    for (const [path, options] of [
      ['', null],
      ['severity', { severity: 'loud' }],
      ['onBreach', { onBreach: 'me' }],
      ['onError', { onError: 7 }],
      ['onbreach', { onbreach: () => undefined }],
    ] as const)
      await expect(watchInvariants(graph, options as never)).rejects.toMatchObject({ problems: [{ path }] })
  })

  it('are silent while all of them hold', async () => {
    const { runtime, graph, go } = await waiting()
    const watch = await watchInvariants(graph)
    expect(await watch.check()).toEqual([])
    await go()
    expect(await watch.check()).toEqual([])
    await watch.close()
    await runtime.close()
  })

  it('become findings as soon as a change breaks one, and pass when it holds again', async () => {
    const { runtime, graph, go } = await waiting()
    const news: FindingRecord[] = []
    const watch = await watchInvariants(graph, { onBreach: (found) => news.push(...found) })
    await graph.commit([move('context', graph.id, 'suspended')], BY)
    await until(() => watch.breaches().length > 0)
    expect(watch.breaches()).toMatchObject([
      {
        what: 'invariant',
        severity: 'high',
        path: 'context.status',
        breach: { invariant: 'sa_context_must_be_active', rule: 'enum(active)', found: '"suspended"' },
      },
    ])
    expect(news.length).toBe(1)
    expect([...recorded({ graph })]).toEqual([]) // nothing that could be settled between graph and files
    await graph.commit([move('context', graph.id, 'active')], BY)
    await until(() => watch.breaches().length === 0)
    expect(ids(watch)).toEqual([])
    await go()
    await watch.close()
    expect(await graph.verify()).toEqual([])
    await runtime.close()
  })

  it('are followed again when the graph could not be read for once', async () => {
    const { runtime, graph, go } = await waiting()
    const errors: unknown[] = []
    let refused = false
    const flaky = new Proxy(graph, {
      get(target, name) {
        if (name === 'clock') return manual
        if (name === 'refresh' && !refused) return failing
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const manual = manualClock()
    const failing = async () => {
      refused = true
      throw new Unavailable('the store', 'try again')
    }
    const onError = (error: unknown) => {
      errors.push(error)
      throw new Error('whoever is told has trouble of their own')
    }
    const watch = await watchInvariants(flaky, { onError })
    await graph.commit([move('context', graph.id, 'suspended')], BY)
    await until(() => manual.sleeping > 0)
    await manual.advance(1000)
    await until(() => watch.breaches().length > 0)
    expect(ids(watch)).toEqual(['sa_context_must_be_active'])
    expect(errors).toEqual([expect.any(Unavailable)])
    await graph.commit([move('context', graph.id, 'active')], BY)
    await go()
    await watch.close()
    await runtime.close()
  })

  it('are checked when watching begins, and a finding from before is kept while it is still so', async () => {
    const { runtime, graph, go } = await waiting()
    await graph.commit([move('context', graph.id, 'suspended')], BY)
    const first = await watchInvariants(graph, { severity: 'critical' })
    expect(first.breaches().map(({ severity }) => severity)).toEqual(['critical'])
    const [found] = first.breaches()
    await first.close()
    const second = await watchInvariants(graph)
    expect(second.breaches()).toEqual([found])
    await second.close()
    await graph.commit([move('context', graph.id, 'active')], BY)
    const third = await watchInvariants(graph)
    expect(third.breaches()).toEqual([])
    await third.close()
    await go()
    await runtime.close()
  })

  it('of a session are checked when it, or who takes part in it, changes', async () => {
    const graph = await graphOf()
    const watch = await watchInvariants(graph)
    const collab_id = systemClock.uuid()
    const collab = {
      meta: META,
      collab_id,
      context_id: graph.id,
      title: 'A session',
      purpose: 'To be checked',
      mode: 'broadcast',
      status: 'draft',
      participants: [{ participant_id: 'one', kind: 'agent', role_id: 'writer' }],
      created_at: '2026-01-01T00:00:00Z',
    }
    await graph.commit(takeApart('collab', collab), BY)
    expect(await watch.check()).toEqual([])
    const [, participant] = takeApart('collab', collab)
    const id = (participant as { id: string }).id
    await graph.commit([{ kind: 'node_update', node: 'participant', id, set: { participant_id: ' ' } }], BY)
    await until(() => watch.breaches().length > 0)
    expect(ids(watch)).toEqual(['map_participant_ids_are_non_empty'])
    await watch.close()
  })
})
