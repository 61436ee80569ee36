import { createRequire } from 'node:module'

/**
 * How `format` is read: as ajv-formats reads it, and so every validator of the protocol's own schemas. Required, not
 * imported: for one CommonJS file an import first starts a lexer, which alone is a sixth of our whole start-up.
 */
export const { fullFormats } = createRequire(import.meta.url)(
  'ajv-formats/dist/formats.js',
) as typeof import('ajv-formats/dist/formats.js')
