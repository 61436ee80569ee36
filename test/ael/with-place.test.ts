import { describe, expect, it } from 'vitest'
import type { Action, Call } from '../../src/ael/adapter.ts'
import { type ActionLayerOptions, actionLayer } from '../../src/ael/ael.ts'
import { finalFailure } from '../../src/ael/failure.ts'
import { manualClock } from '../../src/protocol/clock.ts'
import { adapterOf, turn, work } from './calls.ts'

/** A layer with two types of action, `work` and `rest`, whose ends are in the test's hand. */
function layerOf(options: ActionLayerOptions) {
  const under: { readonly name: string; readonly end: () => void; readonly fail: () => void }[] = []
  const begun: string[] = []
  const execute = ({ params }: Action, { act }: Call) =>
    new Promise<{ output: string }>((resolve, reject) => {
      const name = String(params.name)
      begun.push(name)
      if (params.leads) resolve(act(work({ params: { name: `in ${name}` } })).then(() => ({ output: name })))
      else under.push({ name, end: () => resolve({ output: name }), fail: () => reject(finalFailure('no')) })
    })
  const adapters = [adapterOf(execute), adapterOf(execute, { action_type: 'rest' })]
  const layer = actionLayer({ ...options, adapters })
  const ask = (name: string, action: Partial<Action> = {}, call = {}) =>
    layer.attempt(work({ params: { name }, ...action }), call)
  const ended = async (name: string, how: 'end' | 'fail' = 'end') => {
    under.find((one) => one.name === name)![how]()
    await turn()
  }
  return { layer, ask, ended, begun }
}

describe('an action layer with places', () => {
  it('makes so many attempts of a type at once; others wait, in order', async () => {
    const { ask, ended, begun } = layerOf({ atOnce: { work: 2 } })
    const all = ['a', 'b', 'c', 'd'].map((name) => ask(name))
    await turn()
    const rest = ask('r', { action_type: 'rest' })
    await turn()
    expect(begun).toEqual(['a', 'b', 'r'])
    await ended('b')
    expect(begun).toEqual(['a', 'b', 'r', 'c'])
    for (const name of ['a', 'c', 'd', 'r']) await ended(name)
    expect((await Promise.all([...all, rest])).map(({ output }) => output)).toEqual(['a', 'b', 'c', 'd', 'r'])
  })

  it('makes so many of all together', async () => {
    const { ask, ended, begun } = layerOf({ atOnce: { '*': 2, work: 1 } })
    const all = [ask('a'), ask('b')]
    await turn()
    all.push(ask('r', { action_type: 'rest' }), ask('s', { action_type: 'rest' }))
    await turn()
    expect(begun).toEqual(['a', 'r']) // b waits for a, s for either
    await ended('a')
    expect(begun).toEqual(['a', 'r', 'b']) // which has waited longest
    await ended('r')
    expect(begun).toEqual(['a', 'r', 'b', 's'])
    for (const name of ['b', 's']) await ended(name)
    await Promise.all(all)
  })

  it('has one place for an action whose own type is *', async () => {
    const layer = actionLayer({
      atOnce: { '*': 1 },
      adapters: [adapterOf(async () => ({ output: 'a' }), { action_type: '*' })],
    })
    expect((await layer.attempt(work({ action_type: '*' }))).output).toBe('a')
  })

  it('has a place again after a failure', async () => {
    const { ask, ended, begun } = layerOf({ atOnce: { work: 1 } })
    const failed = ask('a').catch(({ code }) => code)
    const next = ask('b')
    await turn()
    await ended('a', 'fail')
    expect(begun).toEqual(['a', 'b'])
    await ended('b')
    expect([await failed, (await next).output]).toEqual(['action_failed', 'b'])
  })

  it('lets whoever gives up go without a place, and the next one come', async () => {
    const { ask, ended, begun } = layerOf({ atOnce: { work: 1 } })
    const gone = new AbortController()
    const first = ask('a')
    const left = ask('b', {}, { signal: gone.signal }).catch(({ code }) => code)
    const last = ask('c')
    await turn()
    gone.abort()
    expect(await left).toBe('action_aborted')
    await ended('a')
    expect(begun).toEqual(['a', 'c'])
    await ended('c')
    const [one, two] = [ask('d'), ask('e')] // as many places as before
    await turn()
    expect(begun).toEqual(['a', 'c', 'd'])
    for (const name of ['d', 'e']) await ended(name)
    await Promise.all([first, last, one, two])
  })

  it('counts what an action carries out with the action', async () => {
    const { ask, ended, begun } = layerOf({ atOnce: { work: 1 } })
    const leads = ask('a', { params: { name: 'a', leads: true } })
    await turn()
    expect(begun).toEqual(['a', 'in a'])
    await ended('in a')
    expect((await leads).output).toBe('a')
  })

  it('lets the time of an attempt run from when it has its place', async () => {
    const clock = manualClock()
    const { ask, ended, begun } = layerOf({ atOnce: { work: 1 }, clock })
    const first = ask('a', { timeout_ms: 50 })
    const second = ask('b', { timeout_ms: 20 })
    await turn()
    await clock.advance(40)
    await ended('a')
    await clock.advance(15)
    await ended('b')
    expect(begun).toEqual(['a', 'b'])
    expect((await Promise.all([first, second])).map(({ status }) => status)).toEqual(['completed', 'completed'])
  })

  it('is closed without waiting for places', async () => {
    const { layer, ask, ended, begun } = layerOf({ atOnce: { work: 1 } })
    const outcomes = [ask('a'), ask('b')].map((one) => one.catch(({ code }) => code))
    await turn()
    const closed = layer.close()
    await ended('a')
    await closed
    expect(await Promise.all(outcomes)).toEqual(['action_aborted', 'action_aborted'])
    expect(begun).toEqual(['a'])
  })

  it.each([0, 1.5, '2'])('refuses %s places', (places) => {
    const make = () => actionLayer({ atOnce: { work: places as number } })
    expect(make).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ path: 'atOnce.work' })] }))
  })
})
