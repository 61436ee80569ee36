import { VERSION } from '../protocol/version.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'

export async function run({ io }: VerbCall): Promise<number> {
  const facts = {
    runtime_name: 'mplp-runtime',
    runtime_version: VERSION,
    supported_protocol_versions: ['1.0.0'],
    supported_profiles: ['mplp:profile:sa:1.0.0', 'mplp:profile:map:1.0.0'],
    node: process.version,
  }
  io.result(facts, () => `mplp-runtime ${VERSION}, checked against MPLP 1.0.0, Node ${process.version}`)
  return EXIT.done
}
