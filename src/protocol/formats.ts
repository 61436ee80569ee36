import type { FormatDefinition } from 'ajv'
import { required } from './required.ts'

const { fullFormats: published } = required(
  'ajv-formats/dist/formats.js',
) as typeof import('ajv-formats/dist/formats.js')
const dateTime = published['date-time'] as FormatDefinition<string> & { readonly validate: (text: string) => boolean }

/** What needs no calendar to be a date: our own stamps, above all. */
const PLAIN = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z$/

/** How `format` is read: as ajv-formats reads it, and so every validator of the protocol's own schemas. */
export const fullFormats = {
  ...published,
  'date-time': { ...dateTime, validate: (text: string) => PLAIN.test(text) || dateTime.validate(text) },
}
