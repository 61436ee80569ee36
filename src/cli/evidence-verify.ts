import { resolve } from 'node:path'
import { verifyPack } from '../golden/verify-pack.ts'
import { EXIT, table } from './io.ts'
import type { VerbCall } from './verb.ts'

export async function run({ args, io }: VerbCall): Promise<number> {
  const verdict = await verifyPack(resolve(io.cwd, args[0]!))
  io.result(verdict, () =>
    [
      verdict.outcome,
      ...(verdict.findings.length > 0
        ? [table(verdict.findings.map(({ rule, path, message }) => [rule, path, message]))]
        : []),
    ].join('\n'),
  )
  return verdict.outcome === 'ADMISSIBLE' ? EXIT.done : EXIT.unverified
}
