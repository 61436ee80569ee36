import type { ComposedRuntime } from '../compose.ts'
import { idsOf } from './ids-of.ts'
import { EXIT } from './io.ts'
import { unlessLeft } from './unless-left.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  const drives = new Set<string>() // a run that is to end starts nothing, so any process can see it off
  const work = async (runtime: ComposedRuntime) => {
    const handle = await runtime.get(args[0]!)
    drives.add(handle.plan_id)
    await handle.cancel()
    const result = await unlessLeft(io, handle.result(io.signal))
    if (!result) {
      io.warn('left; the run ends once its worker has heard of it')
      return EXIT.failed
    }
    const { status } = result
    io.result({ ...idsOf(handle), status }, () => `the run is ${status}`)
    return EXIT.done
  }
  return withRuntime(io, work, { drives })
}
