import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withRuntime } from './with-runtime.ts'

export async function run({ args: [id], io }: VerbCall): Promise<number> {
  return withRuntime(io, async (runtime) => {
    if (id !== undefined) await runtime.resume(id)
    const taken: { plan_id: string; status: string }[] = []
    let waits = 0
    for (const handle of id === undefined ? await runtime.list() : [await runtime.get(id)]) {
      const rest = await handle.rest(io.signal)
      const status = rest === 'ended' ? (await handle.result()).status : rest
      if (rest === 'waiting') waits++
      taken.push({ plan_id: handle.plan_id, status })
      io.say(`${handle.plan_id} ${status}`)
    }
    io.result({ resumed: taken }, () => (taken.length === 0 ? 'nothing runs' : `${taken.length} taken up`))
    return waits > 0 ? EXIT.waiting : taken.some(({ status }) => status === 'failed') ? EXIT.failed : EXIT.done
  })
}
