import { type EndedRun, endedRuns } from '../psg/ended-runs.ts'
import type { Project } from '../psg/project.ts'
import { toldEnded } from '../server/told-run.ts'
import { EXIT, type Io, table } from './io.ts'
import { inOneLine } from './outputs.ts'

/** The runs that have ended, the last one first, as many as are asked for. */
export async function listEnded(
  project: Project,
  io: Io,
  { status, most }: { readonly status: unknown; readonly most: number },
): Promise<number> {
  const rows: EndedRun[] = []
  let looks = 0
  const onLook = () => {
    io.signal.throwIfAborted()
    io.progress(`${++looks} runs looked at`)
  }
  for await (const ended of endedRuns(project, { status: typeof status === 'string' ? status : undefined, onLook }))
    if (rows.push(ended) === most) break
  io.result(rows.map(toldEnded), () => (rows.length === 0 ? 'no such run' : table(rows.map(cells))))
  return EXIT.done
}

const cells = ({ status, plan_id, context_id, title, ended_at = '', error }: EndedRun): readonly string[] => [
  status,
  `plan ${plan_id}`,
  `context ${context_id}`,
  ended_at,
  error ? `${inOneLine(title)}: ${error.message.split('\n', 1)[0]}` : inOneLine(title),
]
