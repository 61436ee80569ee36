import { failuresOf, outputsOf } from '../orchestrator/outputs.ts'
import { isKind } from '../psg/node.ts'
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

/** Of a run also what its steps have given, why some have not, and which runs they have submitted as their children. */
async function given({ graph, kind, id }: Found): Promise<object> {
  if (kind !== 'run') return {}
  const { data, group } = await graph.require('run', id)
  await graph.load(group)
  const failures = failuresOf(graph, data.plan_id)
  const children = [...graph.state.nodesOf(group)].flatMap(
    (node) => (isKind(node, 'action') && node.data.children) || [],
  )
  return {
    outputs: await outputsOf(graph, data.plan_id),
    ...(failures && { failures }),
    ...(children.length > 0 && { children }),
  }
}
