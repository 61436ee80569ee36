import { VERSION } from '../protocol/version.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'

export const FACTS = {
  runtime_name: 'mplp-runtime',
  runtime_version: VERSION,
  supported_protocol_versions: ['1.0.0'],
  supported_profiles: ['mplp:profile:sa:1.0.0', 'mplp:profile:map:1.0.0'],
  node: process.version,
}

export async function run({ io }: VerbCall): Promise<number> {
  io.result(FACTS, () => `mplp-runtime ${VERSION}, checked against MPLP 1.0.0, Node ${process.version}`)
  return EXIT.done
}
