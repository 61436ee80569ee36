import { EXIT, table } from './io.ts'
import { openRuns } from './open-runs.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

interface Row {
  readonly kind: 'running' | 'waiting' | 'paused'
  readonly of: 'plan' | 'confirm'
  readonly id: string
  readonly context: string
  readonly waits_for?: readonly string[]
}

export async function run({ io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const rows: Row[] = []
    for await (const { graph, run, waits } of openRuns(project)) {
      const { phase, plan_id } = run.data
      rows.push({
        kind: phase === 'waiting' || phase === 'paused' ? phase : 'running',
        of: 'plan',
        id: plan_id,
        context: graph.id,
        waits_for: waits.map(({ what }) => what),
      })
    }
    for await (const [key, where] of project.store.scan('waiting/'))
      rows.push({
        kind: 'waiting',
        of: 'confirm',
        id: key.slice('waiting/'.length),
        context: (where as { graph: string }).graph,
      })
    io.result(rows, () => (rows.length === 0 ? 'nothing runs and nothing waits' : table(rows.map(cells))))
    return EXIT.done
  })
}

const cells = ({ kind, of, id, context, waits_for = [] }: Row): readonly string[] => [
  kind,
  `${of} ${id}`,
  `context ${context}`,
  waits_for.length === 0 ? '' : `for ${waits_for.join(', ')}`,
]
