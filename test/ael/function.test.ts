import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { newAction } from '../../src/ael/action.ts'
import { actionLayer } from '../../src/ael/ael.ts'
import { finalFailure, passingFailure } from '../../src/ael/failure.ts'
import { type FunctionCall, functionAdapter } from '../../src/ael/function.ts'
import { InvalidInput } from '../../src/protocol/errors.ts'
import type { Json } from '../../src/protocol/json.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'

adapterContract('function', async (): Promise<AdapterRig> => {
  const secret = 'function-secret-9000'
  const keys: string[] = []
  const running = new Set<string>()
  let begin: () => void
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  const adapter = functionAdapter({
    double: {
      run: ({ n }: { n: number }) => ({ twice: n * 2 }),
      input: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
      readOnly: true,
    },
    hang: (_, { signal }) =>
      new Promise((_, reject) => {
        running.add('the function')
        begin()
        signal.addEventListener('abort', () => {
          running.delete('the function')
          reject(signal.reason)
        })
      }),
    flicker: () => {
      throw passingFailure('not now')
    },
    fail: () => {
      throw finalFailure('never')
    },
    fill: () => 'x'.repeat(2_000),
    lie: { run: () => 'text', output: { type: 'number' } },
    leak: () => {
      throw finalFailure(`wrong password ${secret}`, { cause: new Error(`in ${secret}`) })
    },
    note: (_, { idempotency_key }) => {
      keys.push(idempotency_key)
      return null
    },
  })
  const params = (name: string) => ({ name })
  return {
    adapter: { ...adapter, secrets: () => [secret] },
    works: { params: { name: 'double', args: { n: 21 } }, output: { twice: 42 } },
    refused: [
      { params: { name: 'double', args: {} }, path: 'args.n' },
      { params: { name: 'double', args: { n: 'two' } }, path: 'args.n' },
      { params: { name: 7 }, path: 'name' },
      { params: { name: 'unheard-of' } },
    ],
    hangs: params('hang'),
    underWay: () => began,
    remains: () => [...running],
    failsForNow: params('flicker'),
    failsForGood: params('fail'),
    large: params('fill'),
    misshapen: params('lie'),
    leaks: { params: params('leak'), secret },
    changes: params('note'),
    keys: () => keys,
  }
})

describe('functionAdapter', () => {
  it('refuses what is not a function, by name', () => {
    expect(() => functionAdapter(null as never)).toThrow(InvalidInput)
    expect(() => functionAdapter(new Map([['greet', () => 'hello']]) as never)).toThrow(/must be a plain object/)
    expect(() => functionAdapter({ broken: 7 as never })).toThrow(InvalidInput)
    expect(() => functionAdapter({ broken: 7 as never })).toThrow(/broken must be a function/)
  })

  it('gives a function without arguments nothing, so that its default holds, and null where that is what it is given', async () => {
    const greet = (name: string | null = 'you') => `hello ${name}`
    const greetings = {
      greet,
      loose: { run: greet, input: z.string().optional() },
      strict: { run: greet, input: { type: ['string', 'null'] } },
    }
    const layer = actionLayer({ adapters: [functionAdapter(greetings)] })
    const said = async (name: string, args?: Json) =>
      (
        await layer.execute(
          newAction({ action_type: 'function', params: { name, ...(args !== undefined && { args }) } }),
        )
      ).output
    for (const name of Object.keys(greetings)) expect(await said(name), name).toBe('hello you')
    expect(await said('greet', null)).toBe('hello null')
    await expect(said('loose', null)).rejects.toThrow(InvalidInput)
  })

  it('refuses a readOnly that is neither true nor false, by path', () => {
    const spec = { run: () => null, readOnly: 'no' as never }
    expect(() => functionAdapter({ f: spec })).toThrow(/f\.readOnly must be true or false/)
  })

  it('does a function that is a method, as one', async () => {
    const counter = {
      count: 41,
      run() {
        return ++this.count
      },
    }
    const layer = actionLayer({ adapters: [functionAdapter({ counter })] })
    const action = newAction({ action_type: 'function', params: { name: 'counter' } })
    expect((await layer.execute(action)).output).toBe(42)
  })

  it.each<[string, (call: FunctionCall) => { readonly signal: AbortSignal }]>([
    ['as it is', (call) => call],
    ['spread', (call) => ({ ...call })],
    ['behind another object', (call) => Object.create(call)],
  ])('hands a function one signal, which ends with the call, also where that is handed on %s', async (_, onward) => {
    const caller = new AbortController()
    const seen: AbortSignal[] = []
    const hang = (_: Json, call: FunctionCall) => {
      seen.push(call.signal, onward(call).signal)
      caller.abort(new Error('enough'))
      return null
    }
    const layer = actionLayer({ adapters: [functionAdapter({ hang })] })
    const action = newAction({ action_type: 'function', params: { name: 'hang' } })
    await expect(layer.execute(action, { signal: caller.signal })).rejects.toMatchObject({ code: 'action_aborted' })
    expect(seen[0]).toBeInstanceOf(AbortSignal)
    expect(seen[1]).toBe(seen[0])
    expect(seen[0]!.aborted).toBe(true)
  })

  it('refuses a schema that does not compile, by path', () => {
    const spec = { run: () => null, input: { type: 'nonsense' } }
    expect(() => functionAdapter({ f: spec })).toThrow(/f\.input does not compile/)
  })

  it('checks arguments by a Standard Schema, also one that answers later', async () => {
    const slow = z.object({ n: z.number() }).refine(async ({ n }) => n > 0, { message: 'must be above 0', path: ['n'] })
    const layer = actionLayer({ adapters: [functionAdapter({ f: { run: () => 'ran', input: slow } })] })
    const action = (n: unknown) => newAction({ action_type: 'function', params: { name: 'f', args: { n } as never } })
    await expect(layer.execute(action(1))).resolves.toMatchObject({ output: 'ran' })
    await expect(layer.execute(action(-1))).rejects.toMatchObject({ problems: [{ path: 'args.n', rule: 'zod' }] })
    await expect(layer.execute(action('x'))).rejects.toBeInstanceOf(InvalidInput)
  })

  it('gives no output for a function that returns nothing, and fails for one that returns no JSON', async () => {
    const functions = {
      quiet: () => undefined,
      big: () => 10n as never,
      loop: () => Object.assign([], { 0: 0 }) as never,
    }
    const layer = actionLayer({ adapters: [functionAdapter(functions)] })
    const run = (name: string) => layer.execute(newAction({ action_type: 'function', params: { name } }))
    expect(await run('quiet')).not.toHaveProperty('output')
    await expect(run('big')).rejects.toMatchObject({ code: 'action_failed', retryable: false })
  })
})
