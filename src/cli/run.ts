import { resolve } from 'node:path'
import type { ComposedRuntime } from '../compose.ts'
import { flowIn } from '../orchestrator/named-flow.ts'
import type { Flow } from '../orchestrator/submit.ts'
import { checkedFlow } from '../orchestrator/submit-check.ts'
import { InvalidInput, Refused, RuleViolation } from '../protocol/errors.ts'
import { unlessNotFound } from '../protocol/unless-not-found.ts'
import { readValue } from './read-value.ts'
import { seeRun } from './see-run.ts'
import type { VerbCall } from './verb.ts'

export async function run(call: VerbCall): Promise<number> {
  const { flow: given, ids } = flowIn(await readValue(resolve(call.io.cwd, call.args[0]!)))
  const flow = checkedFlow(given) // before a store is made for it
  refuseUnlessMayApprove(flow, call.options.approve)
  const { plan_id } = flow.plan
  const begin = async (runtime: ComposedRuntime) => {
    await refuseSecond(runtime, plan_id)
    return runtime.submit(flow).catch(async (error: unknown) => {
      if (error instanceof RuleViolation) await refuseSecond(runtime, plan_id) // another process was faster
      throw error
    })
  }
  return seeRun('run', call, { begin, plans: new Set([plan_id]), ids, makes: true })
}

/** Who may not approve the plan could only have it wait. */
function refuseUnlessMayApprove({ approval }: Flow, approve: unknown): void {
  const roles = approval === 'auto' ? undefined : approval?.roles
  if (approve === undefined || !roles || roles.includes(String(approve))) return
  const message = `is none of ${roles.join(', ')}: only they may approve it`
  throw new InvalidInput('run', [{ path: '--approve', rule: 'role', message }])
}

/** A flow is run once: the rules would say so too, but of each of its ids. */
async function refuseSecond(runtime: ComposedRuntime, plan: string): Promise<void> {
  if (!(await runtime.get(plan).catch(unlessNotFound))) return
  const remedy = `mplp show ${plan} shows how it went; to run it once more, give plan, steps and context new ids, or write the flow in short`
  throw new Refused(`plan ${plan} was submitted before`, remedy)
}
