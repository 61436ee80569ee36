import { type Config, effectiveConfig } from '../config.ts'
import { NotFound } from '../protocol/errors.ts'
import { maskedConfig } from './masked-config.ts'

export const MAKES_IT = 'mplp run makes it, and mplp init a flow to run; --store names another'

/** For verbs that need what is there: one that is misspelt must not be made, and then be found sound and empty. Throws NotFound with the remedy. */
export const unlessMissing =
  (config: Config) =>
  (error: unknown): never => {
    throw isMissingStore(error) ? new NotFound('store', storeIn(config), MAKES_IT) : error
  }

export const isMissingStore = (error: unknown): boolean => error instanceof NotFound && error.what === 'store'

/** The store's URL as it may be shown. */
export const storeIn = (config: Config): string => String(maskedConfig({ vsl: effectiveConfig(config).vsl }).vsl)
