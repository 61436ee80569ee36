import type { JsonObject } from '../protocol/json.ts'
import { type Effect, isMet, pathsIn } from './compensate.ts'

/** What lies at a path: a file, nothing, or something that cannot be looked at, and why. */
export type Lying = { readonly digest?: string; readonly mode?: number; readonly reason?: string } | undefined

export interface Rehearsed {
  readonly effects: readonly Effect[]
  /** Why the disk would not let it be taken back. */
  readonly refused: readonly Refusal[]
}
interface Refusal {
  readonly path: string
  readonly reason: string
}

export const CHANGED = 'somebody else changed it on the disk since'

/**
 * Pure: goes through the inverses of file operations, one after the other, on a picture of the disk. What it would refuse is told apart, what is so
 * already is left out. Nothing is said of what nobody has looked at.
 */
export function rehearsed(effects: readonly Effect[], disk: ReadonlyMap<string, Lying>): Rehearsed {
  const there = new Map(disk)
  const possible: Effect[] = []
  const refused = new Map<string, Refusal>()
  for (const effect of effects) {
    const { inverse } = effect
    const paths = pathsIn(inverse)
    if (paths.length === 0 || !paths.every((path) => there.has(path))) {
      possible.push(effect)
      continue
    }
    const params = inverse.params as JsonObject
    if (isMet(inverse, there) && (params.mode === undefined || params.mode === there.get(paths[0]!)?.mode)) {
      if (effect.cut_off) possible.push(effect) // on record as done, or what is brought back after it would look like somebody else's doing
      continue
    }
    const refusal = refusalOf(params, paths, there)
    if (refusal)
      refused.set(`${refusal.path}: ${refusal.reason}`, refusal) // told once, however often it was written
    else {
      possible.push(effect)
      carryOut(params, paths, there)
    }
  }
  return { effects: possible, refused: [...refused.values()] }
}

function refusalOf(
  { expected_digest, expected_mode }: JsonObject,
  [path, to]: readonly string[],
  there: ReadonlyMap<string, Lying>,
): Refusal | undefined {
  const [lying, target] = [there.get(path!), to === undefined ? undefined : there.get(to)]
  const reason = lying?.reason ?? target?.reason
  if (reason !== undefined) return { path: path!, reason }
  const isOther = expected_digest !== undefined && expected_digest !== (lying?.digest ?? null)
  const isOtherMode = expected_mode !== undefined && expected_mode !== lying?.mode
  if (isOther || isOtherMode) return { path: path!, reason: CHANGED }
  return target && { path: to!, reason: CHANGED }
}

/** On the picture only. */
function carryOut(
  { operation, content_digest, mode }: JsonObject,
  [path, to]: readonly string[],
  there: Map<string, Lying>,
): void {
  const before = there.get(path!)
  if (to !== undefined) there.set(to, before)
  if (operation !== 'write') there.set(path!, undefined)
  else if (typeof content_digest !== 'string')
    there.delete(path!) // given word for word: what comes after it is not known
  else there.set(path!, { digest: content_digest, mode: Number(mode ?? before?.mode ?? 0o644) })
}
