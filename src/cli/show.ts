import { childrenIn } from '../orchestrator/children-under-way.ts'
import { failuresOf, outputsOf } from '../orchestrator/outputs.ts'
import { allWaitsOf } from '../orchestrator/waits.ts'
import type { Project } from '../psg/project.ts'
import { type Found, shownAs } from '../server/find.ts'
import { toldWaits } from '../server/told-run.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withFound } from './with-found.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withFound(io, args[0]!, async (found, project) => {
    const shown = { ...((await shownAs(found)) as object), ...(await given(found, project)) }
    io.result(shown, () => JSON.stringify(shown, undefined, 2))
    return EXIT.done
  })
}

/** Of a run also what its steps have given, why some have not, which runs they have submitted as their children, and what it waits for. */
async function given({ graph, kind, id }: Found, project: Project): Promise<object> {
  if (kind !== 'run') return {}
  const { data, group } = await graph.require('run', id)
  await graph.load(group)
  const failures = failuresOf(graph, data.plan_id)
  const children = childrenIn(graph, group)
  return {
    outputs: await outputsOf(graph, data.plan_id),
    ...(failures && { failures }),
    ...(children.length > 0 && { children }),
    ...(data.phase !== 'ended' && toldWaits(await allWaitsOf(project, graph, data.plan_id))),
  }
}
