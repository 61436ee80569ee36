import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ io }: VerbCall): Promise<number> {
  return withProject(io, async ({ store }) => {
    const rows: { kind: string; id: string; context: string }[] = []
    for (const kind of ['running', 'waiting'] as const)
      for await (const [key, where] of store.scan(`${kind}/`))
        rows.push({ kind, id: key.slice(kind.length + 1), context: (where as { graph: string }).graph })
    io.result(rows, () =>
      rows.length === 0
        ? 'nothing runs and nothing waits'
        : table(
            rows.map(({ kind, id, context }) => [
              kind,
              kind === 'running' ? `plan ${id}` : `confirm ${id}`,
              `context ${context}`,
            ]),
          ),
    )
    return EXIT.done
  })
}
