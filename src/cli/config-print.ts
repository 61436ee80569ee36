import { maskedConfig, mergedConfig } from '../config.ts'
import { EXIT } from './io.ts'
import type { VerbCall } from './verb.ts'

export async function run({ io }: VerbCall): Promise<number> {
  const config = maskedConfig(mergedConfig(await io.config()))
  io.result(config, () => JSON.stringify(config, undefined, 2))
  return EXIT.done
}
