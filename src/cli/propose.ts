import { rolesLeft } from '../psg/confirm.ts'
import { find } from '../server/find.ts'
import { EXIT } from './io.ts'
import { approving } from './remedy.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args, options, io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    const confirm = await runtime.propose(args[0]!, {
      requested_by_role: String(options.role),
      ...(typeof options.reason === 'string' && { reason: options.reason }),
    })
    const { confirm_id } = confirm
    const { graph } = await find(runtime.project, confirm_id)
    io.result(confirm, () => `the plan is proposed again: ${approving(confirm_id, rolesLeft(graph, confirm_id))}`)
    return EXIT.done
  })
}
