import { resolve } from 'node:path'
import type { ComposedRuntime } from '../compose.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import type { Flow } from '../orchestrator/submit.ts'
import { EXIT, type Io } from './io.ts'
import { readValue } from './read-value.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  const flow = (await readValue(resolve(io.cwd, args[0]!))) as Flow
  return withRuntime(io, async (runtime) => {
    const run = await runtime.submit(flow)
    io.say(`run ${run.run_id} of plan ${run.plan_id}`)
    if (options.detach) {
      io.result(
        { run_id: run.run_id, plan_id: run.plan_id, context_id: run.context_id },
        () => 'submitted; `mplp resume` goes on with it',
      )
      return EXIT.done
    }
    const listening = options.events ? listen(run, io) : undefined
    const code = await follow(run, runtime, io, options.approve as string | undefined)
    await listening
    return code
  })
}

/** Waits until the run has ended or needs somebody; Ctrl-C leaves it to be resumed. */
async function follow(run: RunHandle, runtime: ComposedRuntime, io: Io, approve: string | undefined): Promise<number> {
  for (;;) {
    const rest = await run.rest(io.signal).catch((error: unknown) => {
      if (!io.signal.aborted) throw error
      return 'left' as const
    })
    if (rest === 'left') {
      io.warn('left; `mplp resume` goes on with it')
      return EXIT.failed
    }
    if (rest === 'ended') break
    const questions = (await runtime.waiting()).filter((question) => question.plan_id === run.plan_id)
    if (approve === undefined) {
      io.result(
        {
          status: 'waiting',
          run_id: run.run_id,
          plan_id: run.plan_id,
          confirms: questions.map((question) => question.confirm.confirm_id),
        },
        () =>
          [
            `waiting for ${questions.length === 1 ? 'a decision' : `${questions.length} decisions`}:`,
            ...questions.map(({ confirm }) => `  mplp confirm approve ${confirm.confirm_id}   ${confirm.reason ?? ''}`),
          ].join('\n'),
      )
      return EXIT.waiting
    }
    for (const { confirm } of questions)
      await runtime.decide(confirm.confirm_id, { status: 'approved', decided_by_role: approve })
  }
  const result = await run.result()
  io.result({ run_id: run.run_id, plan_id: run.plan_id, context_id: run.context_id, ...result }, () => {
    const status = io.paint(result.success ? 'green' : 'red', result.status)
    return result.error ? `${status}: ${String(result.error.message)}` : status
  })
  return result.success ? EXIT.done : EXIT.failed
}

async function listen(run: RunHandle, io: Io): Promise<void> {
  for await (const { event } of run.events({ signal: io.signal }))
    io.line(event, () => `${io.paint('dim', event.timestamp)} ${event.event_type}`)
}
