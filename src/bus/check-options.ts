import {
  clock,
  duration,
  type Field,
  type Fields,
  having,
  method,
  object,
  refuseUnlessFit,
} from '../protocol/fields.ts'
import type { BusOptions, SourceUrlOptions } from './bus.ts'
import type { SourceOptions } from './source.ts'

/** Throws InvalidInput for options that are none, are not known, or hold what no member can work with; `own` are the member's. */
export const checkMember = (what: string, options: unknown, own: Fields): void =>
  refuseUnlessFit(what, options, { ...SHARED, ...own })

/** Of a bus: its relay remembers by it how far it has come. */
export const busName: Field = {
  says: '1 to 100 letters, digits, or any of _ . -',
  rule: 'name',
  fits: (value) => typeof value === 'string' && /^[\w.-]{1,100}$/.test(value),
}
/** What a server keeps something under. */
export const keptName: Field = {
  says: '1 to 200 letters, digits, or any of _ . : -',
  rule: 'name',
  fits: (value) => typeof value === 'string' && /^[\w.:-]{1,200}$/.test(value),
}
export const history = having('a history: read, published', 'read', 'published')

export const checkBusOptions = (options: unknown): void => refuseUnlessFit('bus options', options, BUS)
export const checkSourceOptions = (options: unknown): void => refuseUnlessFit('source options', options, SOURCE)

const SHARED: { readonly [O in keyof Required<SourceOptions>]: Field } = { clock, onError: method, graceMs: duration }
const SOURCE: { readonly [O in keyof Required<SourceUrlOptions>]: Field } = {
  ...SHARED,
  redis: object,
  kafka: object,
  websocket: object,
}
const BUS: { readonly [O in keyof Required<BusOptions>]: Field } = { ...SOURCE, history: method }
