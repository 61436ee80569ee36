import type { FormatDefinition } from 'ajv'
import { PLAIN_TIME } from './fields.ts'
import { required } from './required.ts'

const { fullFormats: published } = required(
  'ajv-formats/dist/formats.js',
) as typeof import('ajv-formats/dist/formats.js')
const dateTime = published['date-time'] as FormatDefinition<string> & { readonly validate: (text: string) => boolean }

/** How `format` is read: as ajv-formats reads it, and so every validator of the protocol's own schemas. */
export const fullFormats = {
  ...published,
  'date-time': { ...dateTime, validate: (text: string) => PLAIN_TIME.test(text) || dateTime.validate(text) },
}
