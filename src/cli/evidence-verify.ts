import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { verifyPack } from '../golden/verify-pack.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  const folder = resolve(io.cwd, args[0]!)
  const there = await stat(folder).catch(() => undefined) // whatever keeps it from being looked at, it is no pack
  if (!there?.isDirectory())
    throw new InvalidInput(args[0]!, [{ path: '', rule: 'folder', message: 'is no folder that can be read' }])
  const verdict = await verifyPack(folder)
  io.result(verdict, () =>
    [
      verdict.outcome,
      ...(verdict.findings.length > 0
        ? [table(verdict.findings.map(({ rule, path, message }) => [rule, path, message]))]
        : [`root ${verdict.root}`]),
    ].join('\n'),
  )
  return verdict.outcome === 'ADMISSIBLE' ? EXIT.done : EXIT.unverified
}
