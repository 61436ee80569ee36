import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { terminal } from '../../src/cli/io.ts'
import { run } from '../../src/cli/serve.ts'
import { Unavailable } from '../../src/protocol/errors.ts'
import type { Backend } from '../../src/vsl/backend.ts'
import { memoryBackend } from '../../src/vsl/memory.ts'
import { flowOf } from '../support/flows.ts'
import { door } from '../support/on-a-clock.ts'

describe('a server that is told to end', () => {
  it('waits for steps ten seconds from then on, whatever the server itself has taken of them', async () => {
    const asked: number[] = []
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
      asked.push(ms)
      return AbortSignal.abort() // the server has taken all of it
    })
    onTestFinished(() => timeout.mockRestore())
    const [begun, listening] = [door(), door()]
    let said = ''
    const out = {
      write(text: string) {
        said += text
        listening.open()
      },
    }
    const work = () => {
      begun.open()
      return new Promise<void>(() => undefined)
    }
    const told = new AbortController()
    const config = async () => ({ vsl: 'memory:', functions: { work } })
    const io = terminal({ json: true, colour: false, out, err: out, cwd: '.', signal: told.signal, config })
    const serving = run({ args: [], options: { port: '0' }, io })
    await listening.opened
    const { url } = JSON.parse(said) as { url: string }
    await fetch(`${url}/runs`, {
      method: 'POST',
      body: JSON.stringify(flowOf({ work: {} })),
      headers: { 'content-type': 'application/json' },
    })
    await begun.opened
    told.abort()
    const since = performance.now()
    expect(await serving).toBe(0)
    expect(performance.now() - since).toBeLessThan(9_000)
    expect(asked).toContain(10_000)
  })
})

it('tells of a store that takes nothing once, whoever meets with it, and without where in the code that was', async () => {
  const [work, listening, told, end] = [door(), door(), door(), new AbortController()]
  let isFull = false
  const vsl = () => {
    const store = memoryBackend()
    const commit: Backend['commit'] = async (write) => {
      if (isFull) throw new Unavailable('the store', 'its disk is full')
      return store.commit(write)
    }
    return { ...store, commit }
  }
  const [said, warned]: [string[], string[]] = [[], []]
  const io = terminal({
    json: true,
    colour: false,
    out: {
      write: (text: string) => {
        said.push(text)
        listening.open()
      },
    },
    err: {
      write: (text: string) => {
        warned.push(text)
        told.open()
      },
    },
    cwd: '.',
    signal: end.signal,
    config: async () => ({ vsl, functions: { work: () => work.opened } }),
  })
  const serving = run({ args: [], options: { port: '0' }, io })
  await listening.opened
  const { url } = JSON.parse(said[0]!) as { url: string }
  const submit = async () => {
    const body = JSON.stringify(flowOf({ work: {} }))
    const { status } = await fetch(`${url}/runs`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    return status
  }
  expect(await submit()).toBe(202)
  isFull = true
  work.open()
  await told.opened // by who would have kept what the step gave
  expect(await submit()).toBe(503)
  expect(warned.map((text) => JSON.parse(text))).toEqual([
    { warning: { message: 'the store cannot be reached: its disk is full' } },
  ])
  isFull = false
  end.abort()
  expect(await serving).toBe(0)
})
