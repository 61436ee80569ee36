import { InvalidInput } from '../protocol/errors.ts'
import { idsOf } from './ids-of.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  const id = args[0]!
  return withRuntime(io, async (runtime) => {
    const run = await runtime.get(id)
    if (run.phase === 'ended')
      throw new InvalidInput('pause', [{ path: 'run', rule: 'ended', message: `${id} has ended` }])
    await runtime.pause(id)
    io.result(
      { ...idsOf(run), requested: 'pause' },
      () => `the run stops at its next boundary; mplp resume ${id} has it go on`,
    )
    return EXIT.done
  })
}
