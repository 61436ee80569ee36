import {
  type Field,
  flag,
  having,
  method,
  needed,
  object,
  oneOf,
  refuseUnlessFit,
  signal,
  text,
  texts,
  timeout,
  wholeFrom,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { store as storeField } from '../vsl/check-options.ts'
import { A_DRIVER, isDriver } from './driver.ts'
import type { GoldenFlow } from './flow.ts'
import type { GoldenOptions, GoldenReport } from './golden.ts'
import type { OwnDriverOptions } from './own-driver.ts'
import type { PackOptions } from './pack.ts'

/** Each throws InvalidInput for what nothing can be made of. */
export const checkGolden = (options: unknown): void => refuseUnlessFit('golden options', options, GOLDEN)
export const checkPlay = (play: { flow: unknown; driver: unknown; backend: unknown }, options: unknown): void => {
  refuseUnlessFit('flow to run', play, { flow: needed(flow), driver, backend: needed(text) })
  refuseUnlessFit('flow options', options, { limitMs: timeout })
}
export const checkInMemory = (store: unknown): void =>
  refuseUnlessFit('flow store', { store }, { store: needed(storeField) })
export const checkOwnDriver = (options: unknown): void => refuseUnlessFit('driver', options, OWN_DRIVER)
export const checkExport = (project: unknown, options: unknown): void => {
  refuseUnlessFit(
    'pack',
    { project },
    { project: needed(having('a project, as openProject makes them', 'locate', 'context')) },
  )
  refuseUnlessFit('pack options', options, PACK)
}
export const checkReport = (golden: unknown): void => refuseUnlessFit('report', golden, REPORT)
export const checkFormat = (format: unknown, formats: readonly string[]): void =>
  refuseUnlessFit('report', { format }, { format: needed(oneOf(...formats)) })

const isFlow = (value: unknown): value is GoldenFlow =>
  isObject(value) && typeof value.name === 'string' && FLOW_LISTS.every((list) => Array.isArray(value[list]))
const FLOW_LISTS = ['rules', 'needs', 'volatile', 'script', 'invariants']

const flow: Field = { says: 'a flow, as readFlows reads them', fits: isFlow }
const driver = needed({ says: `a ${A_DRIVER}`, fits: isDriver })

const GOLDEN: { readonly [O in keyof Required<GoldenOptions>]: Field } = {
  flows: {
    says: 'a folder of flows, or flows as readFlows reads them',
    fits: (value) => text.fits(value) || (Array.isArray(value) && value.every(isFlow)),
  },
  driver,
  backends: needed(texts),
  filter: { says: 'text', fits: (value) => typeof value === 'string' },
  concurrency: wholeFrom(1),
  limitMs: timeout,
  onResult: method,
  signal,
}
const OWN_DRIVER: { readonly [O in keyof Required<OwnDriverOptions>]: Field } = {
  open: needed(method),
  switched: having('a set', 'has'),
}
const PACK: { readonly [O in keyof Required<PackOptions>]: Field } = { scenario: text }
const REPORT: { readonly [O in keyof GoldenReport]: Field } = {
  driver: needed(text),
  results: needed({ says: 'a list of results', fits: (value) => Array.isArray(value) && value.every(isObject) }),
  passed: flag,
  totals: needed(object),
}
