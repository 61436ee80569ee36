import { kindOfFamily } from '../protocol/events.ts'
import { isObject } from '../protocol/json.ts'
import type { EventFamily } from '../protocol/types.ts'
import { isValid, problems } from '../protocol/validate.ts'
import { type Found, type PackFiles, TIMELINE, timelineIn } from './pack-files.ts'

/** Every line an event that fits its family, in their total order, and none told twice. */
export function checkTimeline(files: PackFiles, found: Found): void {
  if (!files.has(TIMELINE)) return found('timeline.missing', TIMELINE, 'is missing')
  if (!hasEvents(files)) return found('timeline.empty', TIMELINE, 'holds no event')
  let last: readonly [string, string] = ['', '']
  const ids = new Set<string>()
  for (const [event, line] of timelineIn(files)) {
    const at = `${TIMELINE}:${line}`
    if (!isObject(event)) {
      found('timeline.json', at, 'is not a JSON object')
      continue
    }
    const kind = kindOfFamily(event.event_family as EventFamily)
    if (!isValid(kind, event)) found('timeline.event', at, told(kind, event))
    const place = [instantOf(String(event.timestamp)), String(event.event_id)] as const
    if (!isBefore(last, place)) found('timeline.order', at, 'does not come after the line before it')
    last = place
    if (ids.has(place[1])) found('timeline.twice', at, `tells event ${place[1]} once more`)
    ids.add(place[1])
  }
}

export function hasEvents(files: PackFiles): boolean {
  for (const _ of timelineIn(files)) return true
  return false
}

/** A time as text whose order is that of time: another's pack may write its zone, and only the decimals that are there. */
function instantOf(timestamp: string): string {
  const [, whole = '', fraction = '', zone = ''] = TIMESTAMP.exec(timestamp) ?? []
  const ms = Date.parse(whole + zone)
  return Number.isNaN(ms) ? timestamp : `${new Date(ms).toISOString().slice(0, whole.length)}${fraction}`
}
const TIMESTAMP = /^(.{19})(\.\d*[1-9])?\.?0*(z|[+-].{2,5})$/i // without the zeros that end a fraction

/** By time, then by id; equal is not before. */
const isBefore = ([at, id]: readonly [string, string], [nextAt, nextId]: readonly [string, string]): boolean =>
  at < nextAt || (at === nextAt && id < nextId)

/** What a validator has to say, in one line. */
export const told = (kind: Parameters<typeof problems>[0], value: unknown): string =>
  problems(kind, value)
    .map(({ path, message }) => `${path} ${message}`)
    .join('; ')
