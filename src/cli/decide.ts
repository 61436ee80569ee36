import { EXIT } from './io.ts'
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
      })
      io.result(confirm, () => `${confirm.confirm_id} is ${confirm.status}`)
      return EXIT.done
    })
