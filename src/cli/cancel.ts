import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    await runtime.cancel(args[0]!)
    const { status } = await (await runtime.get(args[0]!)).result(io.signal)
    io.result({ status }, () => `the run is ${status}`)
    return EXIT.done
  })
}
