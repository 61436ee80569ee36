import type { ComposedRuntime } from '../compose.ts'
import type { RerunOptions } from '../orchestrator/rerun.ts'
import { rerunIds } from '../orchestrator/rerun-ids.ts'
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
    plans.add(rerunIds(run_id).plan)
    return runtime.rerun(run_id, asked)
  }
  return seeRun('rerun', call, { begin, plans })
}
