import { randomFillSync } from 'node:crypto'
import { InvalidInput } from './errors.ts'
import {
  duration,
  type Field,
  type Fields,
  LONGEST_TIMER_MS,
  needed,
  refuseUnlessFit,
  signal as signalField,
} from './fields.ts'
import { uuidIn } from './json.ts'
import { problem } from './problem.ts'

/** Where time, ids and randomness come from: the only such source, so that tests and golden flows can own it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** A lower-case UUID v4. */
  uuid(): string
  /** At least 0, below 1. */
  random(): number
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first, and with InvalidInput for what is no time. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => Date.now(),
  uuid: timedUuid,
  random: () => Math.random(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      checkSleep(ms, signal)
      if (signal?.aborted) return reject(signal.reason)
      let timer: NodeJS.Timeout
      const wait = (left: number) => {
        timer = setTimeout(
          () => (left > LONGEST_TIMER_MS ? wait(left - LONGEST_TIMER_MS) : wake()),
          Math.min(left, LONGEST_TIMER_MS),
        )
      }
      const wake = () => {
        signal?.removeEventListener('abort', abort)
        resolve()
      }
      const abort = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', abort, { once: true })
      wait(ms)
    })
  },
}

/** Calls back after `ms`, unless what it returns is called first. A sleep that can be aborted costs ten times as much, and every action needs one. */
export function timer(clock: Clock, ms: number, ring: () => void): () => void {
  if (clock === systemClock && duration.fits(ms)) {
    const id = setTimeout(ring, ms)
    return () => clearTimeout(id)
  }
  const off = new AbortController()
  clock.sleep(ms, off.signal).then(ring, () => undefined)
  return () => off.abort()
}

/**
 * A v4 by its form, as the protocol wants it. It begins with the time, so that what is made together lies together in the indexes of a store. Written
 * digit by digit, because a text that is put together from others is kept as a tree of them: twice the time, ten times the memory.
 */
function timedUuid(): string {
  const now = Date.now()
  if (now !== stampedAt) {
    stampedAt = now
    const time = now.toString(16).padStart(12, '0')
    uuid.write(time.slice(0, 8), 0, 'latin1')
    uuid.write(time.slice(8), 9, 'latin1')
  }
  if (drawn === luck.length) {
    randomFillSync(luck)
    drawn = 0
  }
  for (const place of RANDOM_DIGITS) uuid[place] = HEX[luck[drawn++]! & 15]!
  uuid[VARIANT] = HEX[8 | (luck[drawn++]! & 3)]!
  return uuid.toString('latin1')
}
const uuid = Buffer.from('00000000-0000-4000-8000-000000000000')
const RANDOM_DIGITS = [15, 16, 17, 20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]
const VARIANT = 19
const HEX = Buffer.from('0123456789abcdef')
const luck = Buffer.alloc((RANDOM_DIGITS.length + 1) * 256)
let drawn = luck.length
let stampedAt = -1

/** A clock that stands still until it is told to move; the same seed gives the same ids and the same luck. */
export interface ManualClock extends Clock {
  /** Moves time on and wakes, in order of their time, the sleepers that are due. */
  advance(ms: number): Promise<void>
  /** How many are asleep, and until when the first of them is. */
  readonly sleeping: number
  readonly nextWake: number | undefined
}

/** Throws InvalidInput for options that are no numbers. */
export function manualClock(options: { seed?: number; now?: number } = {}): ManualClock {
  refuseUnlessFit('clock', options, { seed: number, now: number })
  const random = mulberry32(options.seed ?? 1)
  let now = options.now ?? Date.UTC(2026, 0, 1)
  let sleepers: { at: number; wake: () => void }[] = []
  const first = () =>
    sleepers.reduce<number | undefined>((min, s) => (min === undefined || s.at < min ? s.at : min), undefined)

  return {
    now: () => now,
    random,
    uuid() {
      const hex = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16)).join('')
      return uuidIn(hex, '89ab'.charAt(Math.floor(random() * 4)))
    },
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        checkSleep(ms, signal)
        if (signal?.aborted) return reject(signal.reason)
        const abort = () => {
          sleepers = sleepers.filter((s) => s !== sleeper)
          reject(signal?.reason)
        }
        const sleeper = {
          at: now + ms,
          wake: () => {
            signal?.removeEventListener('abort', abort)
            resolve()
          },
        }
        sleepers.push(sleeper)
        signal?.addEventListener('abort', abort, { once: true })
      })
    },
    async advance(ms) {
      refuseUnlessFit('clock', { ms }, { ms: needed(number) })
      const until = now + ms
      for (let at = first(); at !== undefined && at <= until; at = first()) {
        now = Math.max(now, at)
        const due = sleepers.filter((s) => s.at <= now)
        sleepers = sleepers.filter((s) => s.at > now)
        for (const sleeper of due) sleeper.wake()
        await new Promise((resolve) => setImmediate(resolve)) // those who woke may go to sleep again before time moves on
      }
      now = until
    },
    get sleeping() {
      return sleepers.length
    },
    get nextWake() {
      return first()
    },
  }
}

const number: Field = { says: 'a number', fits: Number.isFinite }
const SLEEP: Fields = {
  ms: needed({ says: 'a number', fits: (value) => typeof value === 'number' && !Number.isNaN(value) }),
  signal: signalField,
}

/** Every timeout of every action sleeps: what is plainly right is not looked at twice. */
function checkSleep(ms: unknown, signal: unknown): void {
  if (Number.isFinite(ms) && (signal === undefined || signal instanceof AbortSignal)) return
  refuseUnlessFit('sleep', { ms, signal }, SLEEP)
}

/** A stored wait may be long, but its end must be a time that can be written down: a hundred years. */
export const LONGEST_WAIT_MS = 100 * 365 * 24 * 60 * 60 * 1000

/**
 * ISO 8601 with six decimals, so that text order is time order. `micros` counts from the epoch. Most stamps fall into the millisecond of the one
 * before: its text is kept. Throws InvalidInput for what no year of four digits holds.
 */
export function isoMicros(micros: number): string {
  const ms = typeof micros === 'number' ? Math.floor(micros / 1000) : Number.NaN
  if (ms !== last.ms) last = { ms, text: textOf(ms) }
  return `${last.text}${String(Math.floor(micros - ms * 1000)).padStart(3, '0')}Z`
}
let last = { ms: Number.NaN, text: '' }

/** What time it is, in the same form. */
export const isoNow = (clock: Pick<Clock, 'now'>): string => isoMicros(clock.now() * 1000)

const FIRST_MS = Date.parse('0000-01-01T00:00:00Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')
function textOf(ms: number): string {
  if (!(ms >= FIRST_MS && ms <= LAST_MS))
    throw new InvalidInput('time', [problem('', 'range', 'is not a time of the years 0 to 9999', ms)])
  const second = Math.floor(ms / 1000)
  if (second !== lastSecond.second) lastSecond = { second, text: new Date(ms).toISOString().slice(0, -4) }
  return `${lastSecond.text}${String(ms - second * 1000).padStart(3, '0')}`
}
/** A store that syncs takes a millisecond for a step: the engine's own way would be gone for each, and reckons with time zones first. */
let lastSecond = { second: Number.NaN, text: '' }

/** Back from the text. */
export const microsOf = (iso: string): number => Date.parse(iso) * 1000 + Number(iso.slice(-4, -1))

function mulberry32(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
