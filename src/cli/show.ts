import { failuresOf, outputsOf } from '../orchestrator/outputs.ts'
import { type Found, shownAs } from '../server/find.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found) => {
    const shown = { ...((await shownAs(found)) as object), ...(await given(found)) }
    io.result(shown, () => JSON.stringify(shown, undefined, 2))
    return EXIT.done
  })
}

/** Of a run also what its steps have given, and why some have not. */
async function given({ graph, kind, id }: Found): Promise<object> {
  if (kind !== 'run') return {}
  const { data, group } = await graph.require('run', id)
  await graph.load(group)
  const failures = failuresOf(graph, data.plan_id)
  return { outputs: await outputsOf(graph, data.plan_id), ...(failures && { failures }) }
}
