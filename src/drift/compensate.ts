import { posix } from 'node:path'
import { isObject, type JsonObject } from '../protocol/json.ts'
import type { ActionRecord } from '../psg/change.ts'

/** What an action did outside, and the action that takes it back. */
export interface Effect {
  readonly action_id: string
  readonly step_id: string
  readonly inverse: JsonObject
  /** Of the action: a second try at taking it back is known by it. */
  readonly idempotency_key: string
  /** How often taking it back was begun and cut off, if it was: nobody knows whether it is done. */
  readonly cut_off?: number
}

/** The way back from what a run did outside. */
export interface Compensation {
  /** In the order in which they are to be taken back: the last one first. */
  readonly effects: readonly Effect[]
  /** Done, and not to be undone by anybody. */
  readonly irreversible: readonly Irreversible[]
}

/** `reason` where somebody should have said what takes it back, and could not. */
export interface Irreversible extends Pick<Effect, 'action_id' | 'step_id'> {
  readonly reason?: string
}

/** An action, and when it ended: a number that only grows. */
export interface Done {
  readonly action: ActionRecord
  readonly ended: number
  /** Of one that cannot be undone because an attempt was cut off before it had told what was there: the path of the file. */
  readonly cutOffAt?: string
}

export function compensation(done: readonly Done[], isRestored: (inverse: JsonObject) => boolean): Compensation {
  const undone = new Set<string>()
  const behind = new Map<string, number>()
  const cutOffs = new Map<string, number>()
  for (const { action } of done) {
    const { compensates, status } = action
    if (compensates === undefined) continue
    if (status === 'completed') undone.add(compensates)
    if (wasCutOff(action)) cutOffs.set(compensates, (cutOffs.get(compensates) ?? 0) + 1)
  }
  for (const { action, ended } of done)
    if (undone.has(action.action_id) && isObject(action.inverse))
      for (const path of pathsIn(action.inverse)) behind.set(path, Math.min(behind.get(path) ?? ended, ended))
  // Where a file is as it was before something earlier, what was done to it later is behind us, though nobody had to take it back.
  const isBehind = (inverse: JsonObject, ended: number) => {
    const paths = pathsIn(inverse)
    return paths.length > 0 && paths.every((path) => (behind.get(path) ?? ended) < ended)
  }
  const left = done
    .filter(
      ({ action }) =>
        action.compensates === undefined && action.status === 'completed' && !undone.has(action.action_id),
    )
    .sort((a, b) => b.ended - a.ended)
  const effects: Effect[] = []
  const irreversible: Irreversible[] = []
  for (const { action, ended } of left) {
    const { action_id, step_id, idempotency_key, inverse, no_inverse: reason } = action
    if (inverse === 'irreversible') irreversible.push({ action_id, step_id, ...(reason !== undefined && { reason }) })
    else if (isObject(inverse) && !isRestored(inverse) && !isBehind(inverse, ended)) {
      const cut_off = cutOffs.get(action_id)
      effects.push({ action_id, step_id, idempotency_key, inverse, ...(cut_off !== undefined && { cut_off }) })
    }
  }
  return { effects, irreversible }
}

/** One that runs was cut off too, when nothing is under way: its end is still to be written. */
export const wasCutOff = ({ status, error }: ActionRecord): boolean =>
  status === 'running' || error?.code === 'interrupted'

/** The paths that a file operation is about; none for other actions. */
export function pathsIn({ action_type, params }: JsonObject): readonly string[] {
  if (action_type !== 'file_operation' || !isObject(params)) return []
  return [params.path, params.to].filter((path) => typeof path === 'string').map((path) => posix.normalize(path))
}

/** Is the disk already as a file operation would make it? Only said of paths that were looked at. */
export function isMet(
  inverse: JsonObject,
  observed: ReadonlyMap<string, { readonly digest?: string } | undefined>,
): boolean {
  const paths = pathsIn(inverse)
  if (paths.length === 0 || !paths.every((path) => observed.has(path))) return false
  const { operation, content_digest, expected_digest } = inverse.params as JsonObject
  const [there, target] = paths.map((path) => observed.get(path))
  if (operation === 'delete') return there === undefined
  if (operation === 'write') return there !== undefined && there.digest === content_digest
  return operation === 'move' && there === undefined && target?.digest === expected_digest
}
