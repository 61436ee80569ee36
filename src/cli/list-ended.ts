import { type EndedRun, endedRuns } from '../psg/ended-runs.ts'
import type { Project } from '../psg/project.ts'
import { EXIT, type Io, table } from './io.ts'

/** The runs that have ended, the last one first, as many as are asked for. */
export async function listEnded(
  project: Project,
  io: Io,
  { status, most }: { readonly status: unknown; readonly most: number },
): Promise<number> {
  const rows: ReturnType<typeof rowOf>[] = []
  let looks = 0
  const onLook = () => {
    io.signal.throwIfAborted()
    io.progress(`${++looks} runs looked at`)
  }
  for await (const ended of endedRuns(project, { status: typeof status === 'string' ? status : undefined, onLook }))
    if (rows.push(rowOf(ended)) === most) break
  io.result(rows, () => (rows.length === 0 ? 'no such run' : table(rows.map(cells))))
  return EXIT.done
}

/** In the words of `list`. */
const rowOf = ({ status, plan_id, context_id, title, started_at, ended_at, error }: EndedRun) => ({
  kind: status,
  of: 'plan',
  id: plan_id,
  context: context_id,
  title,
  started_at,
  ended_at,
  error,
})

const cells = ({ kind, id, context, title, ended_at = '', error }: ReturnType<typeof rowOf>): readonly string[] => [
  kind,
  `plan ${id}`,
  `context ${context}`,
  ended_at,
  error ? `${title}: ${error.message.split('\n', 1)[0]}` : title,
]
