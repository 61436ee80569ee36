import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { commandAdapter } from '../../examples/custom-adapter.ts'
import { type AdapterRig, adapterContract } from '../contracts/adapter-contract.ts'
import { child } from '../support/child.ts'
import { tempFolder } from '../support/temp-folder.ts'

adapterContract('examples/custom-adapter', async (): Promise<AdapterRig> => {
  const secret = 'command-secret-6174'
  const notes = join(tempFolder(), 'notes')
  const node = (script: string) => ({ command: process.execPath, args: ['-e', script, notes] })
  const append = "const note = (line) => require('node:fs').appendFileSync(process.argv[1], line + '\\n');"
  const noted = (): string[] => {
    try {
      return readFileSync(notes, 'utf8').split('\n').slice(0, -1) // a line that is not at its end counts for nothing
    } catch {
      return []
    }
  }
  return {
    adapter: commandAdapter({ allowed: [process.execPath], secrets: [secret] }),
    works: { params: node('process.stdout.write("42")'), output: { exit_code: 0, stdout: '42' } },
    refused: [
      { params: {}, path: 'command' },
      { params: { command: 'curl' }, path: 'command' },
      { params: { ...node(''), args: 'all' }, path: 'args' },
      { params: { ...node(''), shell: true }, path: 'shell' },
    ],
    hangs: node(`${append} note(process.pid); setInterval(() => {}, 1e6)`),
    underWay: async () => {
      await expect.poll(noted).toHaveLength(1)
    },
    remains: () => noted().filter((pid) => isAlive(Number(pid))),
    failsForNow: node('process.exit(75)'),
    failsForGood: node('process.exit(3)'),
    large: node('process.stdout.write("x".repeat(2000))'),
    leaks: { params: node(`process.stderr.write("bad ${secret}"); process.exit(1)`), secret },
    changes: node(`${append} note(process.env.IDEMPOTENCY_KEY)`),
    keys: noted,
    never: { misshapen: 'a command promises no shape' },
  }
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

it('shows a custom adapter at work', async () => {
  const example = child(new URL('../../examples/custom-adapter.ts', import.meta.url))
  expect(await example.exited).toBe('code 0')
  expect(example.lines).toEqual([
    'execution_started: node, attempt 1',
    'execution_completed: node, attempt 1',
    "gave { exit_code: 0, stdout: '42\\n' }",
    'execution_started: node, attempt 1',
    'execution_failed: node, attempt 1',
    'action_failed: node ended with 3: ',
    'asked: Run rm -r everything?',
    'action_rejected: rm was rejected by operator: not today',
    expect.stringContaining('invalid_input: command is not valid: command must be equal to one of'),
  ])
})

it('shows a model that chooses tools', async () => {
  const example = child(new URL('../../examples/llm-tool-loop.ts', import.meta.url))
  expect(await example.exited).toBe('code 0')
  expect(example.lines.map((line) => line.trim())).toEqual([
    'llm_call_started: demo',
    'tool_execution_started: weather.look',
    'tool_execution_started: weather.look',
    'tool_execution_completed: weather.look',
    'tool_execution_completed: weather.look',
    expect.stringMatching(/^asked: Write "Oslo has snow, Rome has sun\." into the diary\? \(sha256:/),
    'tool_execution_started: diary.write',
    'tool_execution_completed: diary.write',
    'llm_call_completed: demo',
    expect.stringMatching(/^says: Oslo has snow and Rome has sun\. I noted .* \(13 pieces, 3 rounds, \d+ tokens\)$/),
    'the diary: Oslo has snow, Rome has sun.',
  ])
})
