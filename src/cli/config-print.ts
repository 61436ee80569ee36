import { effectiveConfig } from '../config.ts'
import { EXIT } from './io.ts'
import { maskedConfig } from './masked-config.ts'
import type { VerbCall } from './verb.ts'

export async function run({ options, io }: VerbCall): Promise<number> {
  const given = await io.config()
  const config = maskedConfig(options.effective ? effectiveConfig(given) : given)
  io.result(config, () => JSON.stringify(config, undefined, 2))
  return EXIT.done
}
