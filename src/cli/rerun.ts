import type { ComposedRuntime } from '../compose.ts'
import type { RerunOptions } from '../orchestrator/rerun.ts'
import { rerunIds } from '../orchestrator/rerun-ids.ts'
import type { RunHandle } from '../orchestrator/run.ts'
import { unlessNotFound } from '../protocol/unless-not-found.ts'
import { jsonIn } from './json-in.ts'
import { seeRun } from './see-run.ts'
import type { VerbCall } from './verb.ts'

export async function run(call: VerbCall): Promise<number> {
  const { reason, options } = call.options
  const asked: RerunOptions = {
    actor: 'cli',
    ...(reason !== undefined && { reason: String(reason) }),
    ...(options !== undefined && { options: jsonIn('--options', String(options)) as object }),
  }
  const plans = new Set<string>()
  const begin = async (runtime: ComposedRuntime) => {
    const { run_id } = await runtime.get(call.args[0]!)
    const ids = rerunIds(run_id)
    plans.add(ids.plan)
    const before = await runtime.get(ids.run).catch(unlessNotFound)
    if (before?.phase === 'ended') call.io.warn(await howToGoOn(before))
    return runtime.rerun(run_id, asked)
  }
  return seeRun('rerun', call, { begin, plans })
}

/** Who has mended what a rerun failed of, and asks for it again, would take that failure for a new one. */
async function howToGoOn(before: RunHandle): Promise<string> {
  const { success } = await before.result()
  const remedy = success ? '' : `. mplp rerun ${before.run_id} goes on from there`
  return `it has gone on before, in a run that has ended; this is how${remedy}`
}
