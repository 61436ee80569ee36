import { isToRest } from '../orchestrator/requests.ts'
import type { Digest } from '../protocol/json.ts'
import type { Confirm } from '../protocol/types.ts'
import { gateOf, rolesLeft } from '../psg/confirm.ts'
import type { Project } from '../psg/project.ts'
import { runUnderWay } from '../psg/view.ts'
import { find } from '../server/find.ts'
import { EXIT } from './io.ts'
import { approving, askingAgain } from './remedy.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

/** Approve and reject differ in one word. */
export const deciding =
  (status: 'approved' | 'rejected') =>
  async ({ args, options, io }: VerbCall): Promise<number> =>
    withRuntime(io, async (runtime) => {
      const confirm = await runtime.decide(args[0]!, {
        status,
        decided_by_role: String(options.role),
        ...(typeof options.reason === 'string' && { reason: options.reason }),
        ...(typeof options.digest === 'string' && { digest: options.digest as Digest }),
      })
      const next = await nextOf(runtime.project, confirm)
      io.result(confirm, () => [`${confirm.confirm_id} is ${confirm.status}`, ...next].join('; '))
      return EXIT.done
    })

/** What is needed now for anything to come of the answer. */
async function nextOf(
  project: Project,
  { confirm_id, target_type, target_id, status }: Confirm,
): Promise<readonly string[]> {
  const { graph } = await find(project, confirm_id)
  if (status === 'pending') {
    const { needed } = gateOf(graph, confirm_id)!.data
    const rest = rolesLeft(graph, confirm_id)
    const command = rest ? approving(confirm_id, rest) : `${approving(confirm_id)} --role <another>`
    return [`${needed} roles must approve: ${command}`]
  }
  if (await graph.find('finding', target_id))
    return ['who watches the folder sees to it; where nobody does, mplp drift scan does']
  const run = runUnderWay(graph.state, graph.get('confirm', confirm_id)!.group)
  if (!run) return []
  if (status === 'rejected' && target_type === 'plan') return [`its plan is a draft: ${askingAgain(target_id)}`]
  return isToRest(run.data)
    ? [`its run is paused: mplp resume ${run.data.plan_id} has it go on`]
    : ['its worker goes on; where there is none, mplp resume does']
}
