import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'
import { withProject } from './with-runtime.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  return withProject(io, async (project) => {
    const contexts = new Set<string>(args)
    if (contexts.size === 0)
      for await (const [key] of project.store.scan('id/context/')) contexts.add(key.slice('id/context/'.length))
    const findings = [...(args.length === 0 ? await project.graph.verify() : [])]
    let done = 0
    for (const context of contexts) {
      io.progress(`${++done} of ${contexts.size} contexts`)
      findings.push(...(await (await project.context(context)).verify()))
      project.forget(context)
    }
    io.result({ contexts: contexts.size, findings }, () =>
      findings.length === 0
        ? `${contexts.size} contexts hold together`
        : table(findings.map(({ rule, node, message }) => [rule, node, message])),
    )
    return findings.length === 0 ? EXIT.done : EXIT.unverified
  })
}
