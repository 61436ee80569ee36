import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../src/ael/adapter.ts'
import { storable, withOutputs } from '../../src/ael/outputs.ts'
import { redactor } from '../../src/ael/redact.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import { digestOf } from '../../src/protocol/json.ts'
import { adapterOf, callOf, work } from './calls.ts'

const given = (outcome: unknown, options: Parameters<typeof withOutputs>[1] = {}) =>
  withOutputs(
    adapterOf(async () => outcome as Outcome),
    options,
  ).execute(work(), callOf())
const store = () => {
  const kept = new Map<string, string>()
  const put = async (bytes: Uint8Array) => {
    kept.set(digestOf(bytes), Buffer.from(bytes).toString())
    return digestOf(bytes)
  }
  return { kept, blobs: { put } }
}

describe('withOutputs', () => {
  it('gives a copy that is JSON', async () => {
    const list = [1, 2]
    const { output } = await given({ output: { list, at: new Date(0), gone: undefined } })
    expect(output).toEqual({ list: [1, 2], at: '1970-01-01T00:00:00.000Z' })
    list.push(3)
    expect((output as { list: number[] }).list).toEqual([1, 2])
  })

  it('fails on what JSON would change, names the place, and is not tried again', async () => {
    await expect(given({ output: { rates: [1, Number.NaN] }, cost: 4 })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      spent: { cost: 4 },
      message:
        'the output of work is not valid: output.rates[1] is NaN, which JSON would make null; give null or text instead',
      cause: { code: 'invalid_input', problems: [{ path: 'output.rates[1]', rule: 'json' }] },
    })
  })

  it.each([
    ['a function', () => 1],
    ['a bigint', 10n],
    ['a cycle', Object.assign([], { 0: null })],
  ])('fails on %s', async (_what, output) => {
    if (Array.isArray(output)) (output as unknown[])[0] = output
    await expect(given({ output })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      cause: { code: 'invalid_input' },
    })
  })

  it('fails on what is nested more deeply than a commit can take', async () => {
    const nested = (levels: number): unknown => (levels === 0 ? 'x' : { in: nested(levels - 1) })
    expect(await given({ output: nested(1_000) })).toEqual({ output: nested(1_000) })
    await expect(given({ output: nested(1_001) })).rejects.toMatchObject({
      code: 'action_failed',
      retryable: false,
      cause: { problems: [{ path: 'output', message: expect.stringContaining('1000 levels deep') }] },
    })
  })

  it('takes an output that says nothing of itself for none', async () => {
    expect(await given({ output: { toJSON: () => undefined }, cost: 2 })).toEqual({ cost: 2 })
  })

  it.each([
    ['a cost', { cost: Number.NaN }],
    ['a cost', { cost: '2' }],
    ['a cost', { cost: -1 }],
    ['tokens', { token_usage: { prompt: 1, completion: 1, total: Number.POSITIVE_INFINITY } }],
    ['tokens', { token_usage: { prompt: Number.NaN, completion: 1, total: 1 } }],
  ])('fails on %s of no amount', async (_what, spent) => {
    const failure = { code: 'action_failed', retryable: false, spent: undefined }
    await expect(given({ output: 1, ...spent })).rejects.toMatchObject(failure)
  })

  it.each([
    ['text', 'done', 'work gave a string instead of { output }'],
    ['a list', [1], 'work gave a list instead of { output }'],
    ['an object', { answer: 42 }, 'work gave an object with answer instead of { output }'],
  ])('fails on %s that is handed back bare', async (_what, bare, message) => {
    await expect(given(bare)).rejects.toMatchObject({ code: 'action_failed', retryable: false, message })
  })

  it('takes an adapter that returns nothing for one without output', async () => {
    expect(await given(undefined)).toEqual({})
    expect(await given({ cost: 2 })).toEqual({ cost: 2 })
  })

  it('keeps small outputs inline and puts large ones into the blobs, whole and redacted', async () => {
    const { kept, blobs } = store()
    const redact = redactor(() => ['the-secret'])
    const small = await given({ output: 'x'.repeat(90) }, { blobs, inlineBytes: 100 })
    expect([small.output_ref, kept.size]).toEqual([undefined, 0])
    const large = await given({ output: `the-secret ${'é'.repeat(60)}` }, { blobs, inlineBytes: 100, redactor: redact })
    const text = JSON.stringify(`[redacted] ${'é'.repeat(60)}`)
    expect(large.output_ref).toEqual({ digest: digestOf(text), bytes: Buffer.byteLength(text), preview: text })
    expect([...kept.values()]).toEqual([text])
  })

  it('cuts the preview between two characters', async () => {
    const { output_ref } = await given({ output: '😀'.repeat(1_000) }, { ...store(), inlineBytes: 100 })
    expect(output_ref?.preview).toMatch(/^"(😀)+$/u)
    expect(Buffer.byteLength(output_ref?.preview ?? '')).toBeLessThanOrEqual(1_024)
  })

  it('counts bytes, not characters', async () => {
    const options = { maxBytes: 100 }
    expect((await given({ output: 'x'.repeat(98) }, options)).output).toHaveLength(98)
    await expect(given({ output: 'x'.repeat(99) }, options)).rejects.toMatchObject({
      cause: { bytes: 101, limit: 100 },
    })
    await expect(given({ output: 'é'.repeat(50) }, options)).rejects.toMatchObject({ cause: { bytes: 102 } })
  })

  it('does not call work that is done retryable because its output could not be stored, and says what it cost', async () => {
    const blobs = { put: () => Promise.reject(new Unavailable('the store', 'start it')) }
    const token_usage = { prompt: 1, completion: 2, total: 3 }
    const failed = given({ output: 'x'.repeat(200), token_usage, cost: 4 }, { blobs, inlineBytes: 100 })
    await expect(failed).rejects.toMatchObject({ retryable: false, spent: { tokens: 3, cost: 4 } })
  })

  it('does not believe a blob store that answers with another digest', async () => {
    const blobs = { put: async () => digestOf('something else') }
    await expect(given({ output: 'x'.repeat(200) }, { blobs, inlineBytes: 100 })).rejects.toMatchObject({
      retryable: false,
    })
  })
})

describe('storable', () => {
  it('leaves out the output that lies in the blobs, and nothing else', () => {
    const ref = { digest: digestOf('x'), bytes: 1, preview: 'x' }
    expect(storable({ output: 'x', cost: 1 })).toEqual({ output: 'x', cost: 1 })
    expect(storable({ output: 'x', output_ref: ref, cost: 1 })).toEqual({ output_ref: ref, cost: 1 })
  })
})
