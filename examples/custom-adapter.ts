// An action type of your own: commands of this machine, without a shell, as the fourth leg beside tools, models and files.
// npx tsx examples/custom-adapter.ts
import { spawn } from 'node:child_process'
import { newAction } from '../src/ael/action.ts'
import type { Adapter } from '../src/ael/adapter.ts'
import { actionLayer } from '../src/ael/ael.ts'
import { aborted, finalFailure, passingFailure } from '../src/ael/failure.ts'
import { compileSchema } from '../src/ael/schema.ts'
import { InvalidInput } from '../src/protocol/errors.ts'
import type { JsonObject } from '../src/protocol/json.ts'

/** Does `command`: params `{ command, args?, input? }`. Gives `{ exit_code, stdout }`; anything but 0 fails, and 75 may pass. */
export function commandAdapter(options: { allowed: readonly string[]; secrets?: readonly string[] }): Adapter {
  const shape = compileSchema(
    {
      type: 'object',
      properties: {
        command: { enum: [...options.allowed] },
        args: { type: 'array', items: { type: 'string' } },
        input: { type: 'string' },
      },
      required: ['command'],
      additionalProperties: false,
    },
    'params',
  )
  return {
    action_type: 'command',
    executor_kind: 'tool',
    secrets: () => options.secrets ?? [],
    label: ({ command }) => String(command),

    // Refused before anything starts: with the path, so that whoever wrote the plan can mend it.
    async check(params) {
      const problems = await shape.problems(params)
      if (problems.length > 0) throw new InvalidInput('command', problems)
    },

    // Whatever the policy of a run, removing things is asked about.
    approval: (params) => ({
      policy: params.command === 'rm' ? 'ask' : 'always_allow',
      tool: String(params.command),
      arguments: params,
      description: `Run ${String(params.command)} ${argsOf(params).join(' ')}?`,
    }),

    execute: ({ params, idempotency_key }, { signal, onDelta }) =>
      new Promise((resolve, reject) => {
        const command = String(params.command)
        const child = spawn(command, argsOf(params), {
          env: { PATH: process.env.PATH, IDEMPOTENCY_KEY: idempotency_key },
          stdio: ['pipe', 'pipe', 'pipe'],
          signal, // aborting the call ends the process, not only our wait for it
          killSignal: 'SIGKILL',
        })
        let stdout = ''
        let stderr = ''
        child.stdout.on('data', (chunk: Buffer) => {
          stdout += chunk
          onDelta(chunk.toString())
        })
        child.stderr.on('data', (chunk: Buffer) => {
          stderr += chunk
        })
        child.stdin.on('error', () => undefined) // it did not want to read; how it ended is what counts
        child.stdin.end(params.input ?? '')
        child.on('error', (error) => {
          if (!signal.aborted) reject(finalFailure(`${command} cannot be run`, { cause: error }))
        })
        child.on('close', (code) => {
          if (signal.aborted) reject(aborted(command, signal))
          else if (code === 0) resolve({ output: { exit_code: 0, stdout } })
          else if (code === TEMPORARY) reject(passingFailure(`${command} asks to be run again: ${stderr}`))
          else reject(finalFailure(`${command} ended with ${code}: ${stderr}`))
        })
      }),
  }
}

/** EX_TEMPFAIL of sysexits. */
const TEMPORARY = 75

const argsOf = ({ args = [] }: JsonObject): string[] => (args as string[]).map(String)

async function main(): Promise<void> {
  const layer = actionLayer({
    adapters: [commandAdapter({ allowed: ['node', 'rm'] })],
    emit: ({ event_type, payload }) => console.log(`${event_type}: ${payload.operation}, attempt ${payload.attempt}`),
    gate: ({ description }) => {
      console.log(`asked: ${description}`)
      return { verdict: 'rejected', decided_by: 'operator', reason: 'not today' }
    },
  })
  const run = (params: JsonObject) =>
    layer.execute(newAction({ action_type: 'command', executor_kind: 'tool', params })).then(
      ({ output }) => console.log('gave', output),
      (error) => console.log(`${error.code}: ${error.message}`),
    )
  await run({ command: 'node', args: ['-p', '6 * 7'] })
  await run({ command: 'node', args: ['-e', 'process.exit(3)'] })
  await run({ command: 'rm', args: ['-r', 'everything'] })
  await run({ command: 'curl', args: ['http://example.com'] })
  await layer.close()
}

if (import.meta.filename === process.argv[1]) await main()
