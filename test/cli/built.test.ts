import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { flowOf } from '../support/flows.ts'
import { type Built, built } from './built.ts'

const PATIENT = 120_000
const FLOWS = fileURLToPath(new URL('../../golden-flows', import.meta.url))
let it_: Built
beforeAll(() => {
  it_ = built()
}, PATIENT)

/** The command line on plain Node, with nothing loaded before it. */
function start(cwd: string, args: readonly string[]) {
  const child = spawn(process.execPath, [it_.main, ...args], { cwd, env: { PATH: process.env.PATH, HOME: cwd } })
  onTestFinished(() => void child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.on('data', (text) => {
    out += text
  })
  child.stderr.on('data', (text) => {
    err += text
    child.emit('complained')
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, out, err }))
  const said = async (what: string | RegExp) => {
    while (!(typeof what === 'string' ? out.includes(what) : what.test(out))) {
      if (child.exitCode !== null) throw new Error(`it ended without saying ${what}: ${out}${err}`)
      await Promise.race([once(child.stdout, 'data'), ended])
    }
    return out
  }
  /** Sends it, and waits until it was heard. */
  const interrupt = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    while (!err.includes('finishing what is in hand')) await once(child, 'complained')
  }
  return { child, ended, said, interrupt }
}

describe('a config in TypeScript, on plain Node', { timeout: PATIENT }, () => {
  const CONFIG = `import { type Config, defineConfig } from 'mplp-runtime'
const given: Config = { vsl: 'memory:', patrol_ms: 77 }
export default defineConfig(given)
`

  it.each([
    ['tsx', 'module'],
    ['tsx', 'commonjs'],
    ['jiti', 'module'],
    ['jiti', 'commonjs'],
  ])('is read with the %s that the project has, of type %s', async (loader, type) => {
    const folder = it_.project(loader)
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }))
    writeFileSync(join(folder, 'mplp.config.ts'), CONFIG)
    const { code, out, err } = await start(folder, ['config', 'print', '--json']).ended
    expect({ code, err, config: JSON.parse(out) }).toEqual({
      code: 0,
      err: '',
      config: { vsl: 'memory:', patrol_ms: 77 },
    })
  })

  it('is refused with the remedy where neither Node nor the project can read it', async () => {
    const folder = it_.project()
    writeFileSync(join(folder, 'mplp.config.ts'), CONFIG)
    const { code, err } = await start(folder, ['config', 'print']).ended
    const reads = 'typescript' in process.features && process.features.typescript !== false
    expect({ code, err }).toEqual(
      reads
        ? { code: 0, err: '' }
        : {
            code: 64,
            err: expect.stringMatching(/^mplp: \S+mplp.config.ts is not valid: .*npm install --save-dev tsx.*\n$/),
          },
    )
    expect(await start(folder, ['version']).ended).toMatchObject({ code: 0, err: '' })
  })

  it('is not alone: a driver of golden flows may be TypeScript too', async () => {
    const folder = it_.project('tsx')
    const driver = "export default { name: 'none' as string, capabilities: [], open: async () => ({}) }"
    writeFileSync(join(folder, 'driver.ts'), driver)
    const named = ['--filter', 'conformance/basic', '--driver', 'driver.ts', '--backends', 'memory']
    const { code, out } = await start(folder, ['golden', FLOWS, ...named]).ended
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('memory: 0 passed, 0 failed, 1 skipped') })
  })

  it('is called wrong in one line when it is', async () => {
    const folder = it_.project('tsx')
    writeFileSync(join(folder, 'mplp.config.ts'), 'export default { vsl: 7 as number }')
    const { code, err } = await start(folder, ['list']).ended
    expect({ code, err }).toEqual({
      code: 64,
      err: expect.stringMatching(
        /^mplp: \S+mplp\.config\.ts is not valid: vsl must be text that is not empty, or from code a function that opens a store\n$/,
      ),
    })
  })
})

describe('a config in JavaScript, on plain Node', { timeout: PATIENT }, () => {
  it('is told what helps where it is a module in a project of CommonJS', async () => {
    const folder = it_.project()
    writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }')
    writeFileSync(join(folder, 'mplp.config.js'), "export default { vsl: 'memory:' }")
    const { code, err } = await start(folder, ['config', 'print']).ended
    expect({ code, err }).toEqual({ code: 64, err: expect.stringMatching(/^mplp: .*end its name in \.mjs.*\n$/m) })
  })

  it('is told what is missing where it exports something, and nothing by default', async () => {
    const folder = it_.project()
    writeFileSync(join(folder, 'mplp.config.mjs'), "export const config = { vsl: 'memory:' }")
    const { code, err } = await start(folder, ['config', 'print']).ended
    expect({ code, err }).toEqual({
      code: 64,
      err: expect.stringMatching(/^mplp: .*write export default before it\n$/),
    })
  })

  it('leaves every line JSON under --json, also when Node warns of what it does', async () => {
    const folder = it_.project()
    const warns = "process.emitWarning('it is old', 'DeprecationWarning')"
    writeFileSync(join(folder, 'mplp.config.mjs'), `${warns}\nexport default { vsl: 7 }`)
    const { code, err } = await start(folder, ['config', 'print', '--json']).ended
    const lines = err.trimEnd().split('\n')
    expect({ code, told: Object.assign({}, ...lines.map((line) => JSON.parse(line))) }).toEqual({
      code: 64,
      told: {
        warning: { message: 'DeprecationWarning: it is old' },
        error: expect.objectContaining({ code: 'invalid_input' }),
      },
    })
  })
})

describe('Ctrl-C', { timeout: PATIENT }, () => {
  /** A flow of two steps, of which the first says that it has begun and then waits for a file. */
  function slow(): string {
    const folder = it_.project()
    writeFileSync(
      join(folder, 'mplp.config.mjs'),
      `import { existsSync, writeFileSync } from 'node:fs'
export default {
  functions: {
    slow: async () => {
      writeFileSync('begun', '')
      while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 20))
      return 'done'
    },
    next: () => { writeFileSync('next', '') },
  },
}`,
    )
    writeFileSync(join(folder, 'flow.json'), JSON.stringify(flowOf({ slow: {}, next: { after: ['slow'] } })))
    return folder
  }
  const appears = async (path: string) => {
    while (!existsSync(path)) await pause(20)
  }

  it('lets what is in hand finish, starts nothing more, and leaves the rest to be resumed', async () => {
    const folder = slow()
    const run = start(folder, ['run', 'flow.json'])
    await appears(join(folder, 'begun'))
    await run.interrupt('SIGINT')
    writeFileSync(join(folder, 'go'), '') // only now can the step that is in hand end
    const { code, err } = await run.ended
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining('left; `mplp resume` goes on with it\n') })
    expect(existsSync(join(folder, 'next'))).toBe(false)
    const resumed = await start(folder, ['resume', '--json']).ended
    expect(JSON.parse(resumed.out)).toMatchObject({ resumed: [{ status: 'completed' }] })
    expect(existsSync(join(folder, 'next'))).toBe(true)
  })

  it('twice ends the process at once, and what was in hand is run again by who resumes', async () => {
    const folder = slow()
    const run = start(folder, ['run', 'flow.json'])
    await appears(join(folder, 'begun'))
    await run.interrupt('SIGINT')
    run.child.kill('SIGINT')
    expect(await run.ended).toMatchObject({ code: 130 })
    writeFileSync(join(folder, 'go'), '')
    const resumed = await start(folder, ['resume', '--json']).ended
    expect({ code: resumed.code, out: JSON.parse(resumed.out) }).toMatchObject({
      code: 0,
      out: { resumed: [{ status: 'completed' }] },
    })
  })

  it('lets a server answer what it was asked before, ends streams, and ends well', async () => {
    const folder = slow()
    const server = start(folder, ['serve', '--port', '0', '--json'])
    const { url } = JSON.parse(await server.said('\n')) as { url: string }
    const flow = flowOf({ slow: {} })
    const sent = await fetch(`${url}/runs`, {
      method: 'POST',
      body: JSON.stringify(flow),
      headers: { 'content-type': 'application/json' },
    })
    expect(sent.status).toBe(202)
    await appears(join(folder, 'begun'))
    const { sent: isSent, status } = asked(`${url}/runs/${flow.plan.plan_id}?wait_ms=20000`)
    await isSent
    const stream = await fetch(`${url}/events`)
    await stream.body!.getReader().read() // it has come so far as to answer, and was asked for the other one before
    await server.interrupt('SIGTERM')
    writeFileSync(join(folder, 'go'), '')
    expect(await status).toBe(200)
    expect(await server.ended).toMatchObject({ code: 0 })
  })

  it('ends the process when all is done, though the config holds something that never ends', async () => {
    const folder = it_.project()
    const held = 'export default { functions: { greet: () => 1 } }\nsetInterval(() => undefined, 1000)'
    writeFileSync(join(folder, 'mplp.config.mjs'), held)
    writeFileSync(join(folder, 'greet.json'), JSON.stringify(flowOf({ greet: {} })))
    const run = await start(folder, ['run', 'greet.json']).ended
    expect(run).toMatchObject({ code: 0, err: expect.stringContaining('the process is ended') })
    const server = start(folder, ['serve', '--port', '0', '--json'])
    await server.said('\n')
    await server.interrupt('SIGTERM')
    const { code, err } = await server.ended
    expect([code, JSON.parse(err.trim().split('\n').at(-1)!)]).toEqual([
      0,
      { warning: { message: expect.stringContaining('the process is ended') } },
    ])
  })
})

/** Resolves when it is on its way, and with the status of the answer. */
function asked(url: string): { readonly sent: Promise<unknown>; readonly status: Promise<number> } {
  const asking = request(url)
  const sent = once(asking, 'finish')
  const status = once(asking, 'response').then(([response]) => {
    response.resume()
    return response.statusCode as number
  })
  asking.end()
  return { sent, status }
}
