import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { terminal } from '../../src/cli/io.ts'
import { run } from '../../src/cli/serve.ts'
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
