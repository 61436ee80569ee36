import {
  anything,
  type Field,
  list,
  needed,
  object,
  objects,
  refuseUnlessFit,
  text,
  texts,
  wholeFrom,
} from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { aGraph } from '../psg/check-options.ts'
import type { TakingBack } from './take-back.ts'

/** Each throws InvalidInput for what nothing can be done with. */
export const checkGraph = (graph: unknown): void => refuseUnlessFit('drift', { graph }, { graph: needed(aGraph) })
export const checkFinding = (finding: unknown): void =>
  refuseUnlessFit('finding', finding, { finding_id: needed(text), '*': anything })
export const checkWhich = (which: unknown): void => refuseUnlessFit('which', { which }, { which: needed(WHICH) })
export const checkAuthor = (by: unknown): void => refuseUnlessFit('author', by, { actor: text, reason: text })
export const checkRead = (read: { readonly digest: unknown; readonly reader: unknown }): void =>
  refuseUnlessFit('read', read, { digest: needed(digest), reader: needed(object) })
export const checkStale = (asked: { readonly found: unknown; readonly asker: unknown }): void =>
  refuseUnlessFit('stale check', asked, { found: digest, asker: needed(object) })
export const checkWrote = (files: unknown, by: unknown): void => {
  refuseUnlessFit('written files', { files, by }, { files: needed(WROTE), by: needed(object) })
  refuseUnlessFit('written files', by, { action_id: needed(text), run: object, '*': anything })
}
export const checkTakingBack = (taking: unknown): void => refuseUnlessFit('way back', taking, TAKING_BACK)

const WHICH: Field = {
  says: "'all', or a list of paths and ids",
  fits: (value) => value === 'all' || texts.fits(value),
}
const isDigest = (value: unknown): boolean => typeof value === 'string' && value.startsWith('sha256:')
const digest: Field = { says: 'a digest', fits: isDigest }
const isWrote = (value: unknown): boolean =>
  isObject(value) && text.fits(value.path) && (value.digest === null || isDigest(value.digest))
const WROTE: Field = {
  says: 'a list of files, each with its path and the digest of what it holds or null',
  fits: (value) => Array.isArray(value) && value.every(isWrote),
}
const TAKING_BACK: { readonly [O in keyof Required<TakingBack>]: Field } = {
  files: needed(objects),
  changes: needed(list),
  revision: needed(wholeFrom(0)),
  run: needed(text),
  actor: needed(text),
  reason: needed(text),
}
