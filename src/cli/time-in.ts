import { systemClock } from '../protocol/clock.ts'
import { InvalidInput } from '../protocol/errors.ts'
import { time } from '../protocol/fields.ts'
import { shown } from '../protocol/shown.ts'

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000 } as const

/** The time in the past that a word of the command line means: one itself, a day, or how long ago it was. Throws InvalidInput by that word. */
export function timeIn(by: string, text: string, now = systemClock.now()): string {
  const [, amount, unit] = /^(\d{1,6})([dhm])$/.exec(text) ?? []
  const ago = Number(amount) * UNITS[unit as keyof typeof UNITS]
  const day = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text
  const meant = amount === undefined ? day : new Date(now - ago).toISOString()
  const refused = (rule: string, message: string) =>
    new InvalidInput('the command line', [{ path: by, rule, message, found: shown(text) }])
  if (!time.fits(meant))
    // which the time before all years is not
    throw refused('format', 'must be a day (2026-08-01), a time with a zone, or how long ago (90d, 12h, 30m)')
  if (Date.parse(meant) > now) throw refused('past', `is still to come: ${text}; 0d is everything until now`)
  return meant
}
