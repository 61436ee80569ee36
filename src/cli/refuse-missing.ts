import { existsSync } from 'node:fs'
import { type Config, effectiveConfig } from '../config.ts'
import { NotFound } from '../protocol/errors.ts'
import { storePath } from '../vsl/vsl.ts'

export const MAKES_IT = 'mplp run makes it, and mplp init a flow to run; --store names another'

/** For verbs that need what is there: to open a store makes it, and then a misspelt one would be found sound and empty. Throws NotFound. */
export function refuseMissing(config: Config): void {
  const url = missingStore(config)
  if (url !== undefined) throw new NotFound('store', url, MAKES_IT)
}

/** The URL of a store that is made of files and has none; `undefined` for all others. */
export function missingStore(config: Config): string | undefined {
  const { vsl } = effectiveConfig(config)
  const path = storePath(vsl)
  return path !== undefined && !existsSync(path) ? vsl : undefined
}
