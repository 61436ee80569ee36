import type { Config } from '../config.ts'

/** How a command ended: part of the public contract, in docs/cli.md. */
export const EXIT = { done: 0, failed: 1, waiting: 2, unverified: 3, usage: 64 } as const

/** What a verb has of the terminal. Everything it says goes through here. */
export interface Io {
  /** A line for people; nothing under `--json`. */
  say(line: string): void
  /** The result: one JSON text under `--json`, otherwise what `human` makes of it. */
  result(value: unknown, human: () => string): void
  /** A further line of a stream, also under `--json`. */
  line(value: unknown, human: () => string): void
  /** A line beside the result, on stderr; a JSON text under `--json`. */
  warn(message: string): void
  /** On a terminal one line that is written over; elsewhere a line now and then. */
  progress(line: string): void
  /** Takes the line of progress away, so that whatever comes next does not stand behind it. */
  clear(): void
  readonly paint: Paint
  readonly json: boolean
  readonly cwd: string
  /** Aborted by the first Ctrl-C: finish what is in hand. The second ends the process. */
  readonly signal: AbortSignal
  /** Config file, environment and flags, merged and checked. */
  config(): Promise<Config>
}

export type Colour = 'dim' | 'bold' | 'red' | 'green' | 'yellow' | 'blue'
export type Paint = (colour: Colour, text: string) => string

const CODES: { readonly [C in Colour]: readonly [number, number] } = {
  dim: [2, 22],
  bold: [1, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
}

/** A terminal, a pipe, or whoever listens. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** How wide a terminal is. */
  readonly columns?: number
}

export interface IoOptions {
  readonly json: boolean
  readonly colour: boolean
  readonly out: Output
  readonly err: Output
  readonly cwd: string
  readonly signal: AbortSignal
  readonly config: () => Promise<Config>
  /** By which a pipe is told of progress now and then, in milliseconds. Default: since this process began. */
  readonly now?: (() => number) | undefined
}

/** How often a pipe is told of progress, which a terminal shows as it comes. */
const PROGRESS_MS = 2_000

export function terminal(options: IoOptions): Io {
  const { json, out, err, colour, now = () => performance.now() } = options
  let lastProgress = now()
  let isShowing = false
  const clear = () => {
    if (isShowing) err.write(OVER)
    isShowing = false
  }
  const write = (stream: Output, text: string) => {
    clear()
    stream.write(`${plainFor(stream, text)}\n`)
  }
  const tell: Io['line'] = (value, human) => write(out, json ? JSON.stringify(value) : human())
  return {
    json,
    cwd: options.cwd,
    signal: options.signal,
    config: options.config,
    say: (line) => json || write(out, line),
    result: tell,
    line: tell,
    warn: (message) => write(err, warning(message, json)),
    progress(line) {
      if (json) return
      if (err.isTTY) {
        isShowing = true
        err.write(`${OVER}${inOneRow(plainFor(err, line), err.columns)}`)
      } else if (now() - lastProgress > PROGRESS_MS) {
        lastProgress = now()
        write(err, line)
      }
    },
    clear,
    paint: (name, text) => (colour ? `\u001b[${CODES[name][0]}m${text}\u001b[${CODES[name][1]}m` : text),
  }
}

/** A line beside the result, without its end. */
export const warning = (message: string, json: boolean): string =>
  json ? JSON.stringify({ warning: { message } }) : `mplp: ${message}`

/**
 * What a terminal would obey is shown to it, not sent: names, titles and reasons are others' words, and a reason that wipes itself out could have
 * a person approve what was not seen, and so could one that is shown backwards. Only our own colours pass. Who is no terminal gets every byte.
 */
export const plainFor = ({ isTTY = false }: Output, text: string): string =>
  isTTY
    ? text.replace(/(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069](?:\[\d+m)?/gu, (found) =>
        OURS.has(found) ? found : escaped(found),
      )
    : text
const OURS: ReadonlySet<string> = new Set(
  Object.values(CODES).flatMap((codes) => codes.map((code) => `\u001b[${code}m`)),
)
const escaped = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}${found.slice(1)}`

/** To the beginning of the line, and the line away. */
const OVER = '\r\u001b[2K'

/** Of a line that a terminal would break, what fits: the next one is written over one row only. */
function inOneRow(line: string, columns = Number.POSITIVE_INFINITY): string {
  let [row, width] = ['', 0]
  for (const character of line) {
    width += widthOf(character)
    if (width >= columns) return row // the last column stays free: some terminals break a line that fills it
    row += character
  }
  return row
}

/** Others' words stay in the line that they are shown in: with line ends in them, a title or a reason could put lines of its own among ours. */
export const unbroken = (text: string): string => text.replaceAll(/[\r\n]\s*/g, ' ')

/** Rows in columns that are as wide as they need to be. A cell that is very long puts only its own row out of them. */
export function table(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(unbroken))
  const widths = rows.reduce<number[]>((most, row) => row.map((cell, i) => Math.max(most[i] ?? 0, usualOf(cell))), [])
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell + ' '.repeat(Math.max(0, widths[i]! - widthOf(cell))))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

const WIDEST = 60
const usualOf = (cell: string): number => (widthOf(cell) > WIDEST ? 0 : widthOf(cell))

/** How many columns of a terminal a text takes: most of East Asia and emoji take two a character, what combines takes none. */
const widthOf = (text: string): number =>
  [...text.replace(NO_COLUMN, '')].length + (text.match(TWO_COLUMNS)?.length ?? 0)
const NO_COLUMN = /[\p{M}\p{Cf}]/gu
const TWO_COLUMNS =
  /(?![\uff61-\uffdc])[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uffe6]/gu
