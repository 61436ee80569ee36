import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { terminal } from '../../src/cli/io.ts'
import { main } from '../../src/cli/program.ts'
import { flowOf } from '../support/flows.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { mplpHere } from './here.ts'

const OVER = '\r\u001b[2K'
const HEARD = `${OVER}mplp: finishing what is in hand; Ctrl-C again ends it at once\n`

/** What a terminal is told, and the exit code, where Ctrl-C comes with the first line of progress that ends so. */
async function interrupted(at: string, args: readonly string[]): Promise<{ code: number; said: string }> {
  let said = ''
  const err = {
    isTTY: true,
    write: (text: string) => {
      const isFirst = text.endsWith(at) && !said.includes(at)
      said += text
      if (isFirst) process.emit('SIGINT')
    },
  }
  const code = await main(args, { out: err, err, colour: false })
  return { code, said }
}

describe('a line of progress on a terminal', () => {
  it('is taken away before anything else is said', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'a'), '')
    const { said } = await interrupted('1 files', ['drift', 'scan', folder, '--store', 'memory:'])
    expect(said).toBe(`${OVER}1 files${HEARD}mplp: interrupted\n`)
  })

  it('stays one line where the terminal is narrow, and cannot tell it what to do', () => {
    const told: string[] = []
    const err = { isTTY: true, columns: 12, write: (text: string) => told.push(text) }
    const { signal } = new AbortController()
    const io = terminal({ json: false, colour: false, out: err, err, cwd: '.', signal, config: async () => ({}) })
    for (const line of ['1 of 9: integrity', '流れ流れ流れ流れ', 'a\u001b[8mb']) io.progress(line)
    expect(told).toEqual([`${OVER}1 of 9: int`, `${OVER}流れ流れ流`, `${OVER}a\\u001b[8mb`])
  })
})

describe('progress in a pipe', () => {
  it('is told every two seconds, and not before', () => {
    const told: string[] = []
    const out = { write: (text: string) => told.push(text) }
    let now = 5_000
    const { signal } = new AbortController()
    const config = async () => ({})
    const io = terminal({ json: false, colour: false, out, err: out, cwd: '.', signal, config, now: () => now })
    for (const ms of [0, 1_999, 2, 1_999, 2]) {
      now += ms
      io.progress(`at ${now}`)
    }
    expect(told).toEqual(['at 7001\n', 'at 9002\n'])
  })
})

describe('Ctrl-C', () => {
  it('ends golden flows, and those that were not run are not passed over', async () => {
    const { code, said } = await interrupted(' on memory', ['golden', '--backends', 'memory', '--filter', 'integrity'])
    const [, passed] = /memory: (\d+) passed, 0 failed\nmplp: interrupted\n$/.exec(said) ?? []
    expect({ code, isPart: Number(passed) > 0 && Number(passed) < 23 }).toEqual({ code: 1, isPart: true })
  })

  it('is told to a program as what it is, and not as a fault of ours', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'a'), '')
    const config = "process.emit('SIGINT')\nexport default {}"
    writeFileSync(join(folder, 'mplp.config.mjs'), config)
    const { code, err } = await mplpHere(folder, ['drift', 'scan', '--store', 'memory:', '--json'])
    expect([code, err.split('\n')[1]]).toEqual([
      1,
      '{"error":{"code":"interrupted","message":"interrupted","retryable":true}}',
    ])
  })

  it.each([
    ['list', '1 runs'],
    ['doctor', '1 runs'],
    ['store stats', 'counting contexts'],
  ])('ends what looks through a whole store: %s', async (verb, at) => {
    const store = await storeOfTwo()
    const { code, said } = await interrupted(at, [...verb.split(' '), '--store', store])
    expect({ code, said }).toEqual({ code: 1, said: expect.stringMatching(/Ctrl-C again .*\nmplp: interrupted\n$/) })
  })

  it('does not have a part of the events taken for all of them', async () => {
    const store = await storeOfTwo()
    const { code, said } = await interrupted('pipeline_stage\n', ['events', '--store', store])
    const [first, heard, ...rest] = said
      .split('\n')
      .filter((line) => !/^\S+Z /.test(line) || line.includes('activated'))
    expect({ code, first, heard, rest }).toEqual({
      code: 1,
      first: expect.stringContaining('context_activated'),
      heard: expect.stringContaining('finishing what is in hand'),
      rest: ['mplp: interrupted', ''],
    })
  })

  /** A store with two runs that nobody has begun. */
  async function storeOfTwo(): Promise<string> {
    const folder = tempFolder()
    for (const name of ['a.json', 'b.json']) {
      const step = { binding: { action_type: 'wait', params: { ms: 1 } } }
      writeFileSync(join(folder, name), JSON.stringify(flowOf({ step })))
      await mplpHere(folder, ['run', name, '--detach'])
    }
    return `sqlite:${join(folder, '.mplp/state.db')}`
  }

  it('ends the proof of a store, and says of what was looked at so far neither good nor bad', async () => {
    const store = await storeOfTwo()
    const { code, said } = await interrupted('1 of 2 contexts', ['store', 'verify', '--store', store])
    expect({ code, said }).toEqual({ code: 1, said: `${OVER}1 of 2 contexts${HEARD}mplp: interrupted\n` })
  })
})
