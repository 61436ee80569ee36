import type { FormatDefinition } from 'ajv'
import { PLAIN_TIME } from './fields.ts'
import { required } from './required.ts'

const { fullFormats: published } = required(
  'ajv-formats/dist/formats.js',
) as typeof import('ajv-formats/dist/formats.js')
const dateTime = published['date-time'] as FormatDefinition<string> & { readonly validate: (text: string) => boolean }

/** A day, and one separator behind it: any other text would be taken apart at each of its separators, of which there may be millions. */
const SEPARATED = /^\d{4}-\d\d-\d\d[t\s][^t\s]*$/i

const isDateTime = (text: string): boolean => PLAIN_TIME.test(text) || (SEPARATED.test(text) && dateTime.validate(text))

/** How `format` is read: as ajv-formats reads it, and so every validator of the protocol's own schemas. */
export const fullFormats = {
  ...published,
  'date-time': { ...dateTime, validate: isDateTime },
}
