import { ActionError, ApprovalNeeded, InvalidInput, MplpError, type Problem } from '../protocol/errors.ts'
import { method, refuseUnlessFit } from '../protocol/fields.ts'
import type { Json, JsonObject } from '../protocol/json.ts'
import { shown } from '../protocol/shown.ts'
import { optionsOf, saidBy, saidWithoutClass } from './failure.ts'

/** What stands where a secret stood. */
export const REDACTED = '[redacted]'

/** Takes secrets out of whatever is stored, emitted or thrown: those it was told of, and whatever has the shape of a key. */
export interface Redactor {
  text(text: string): string
  /** The value itself when there is nothing to take out of it. */
  json<T extends Json>(value: T): T
  /** A copy without secrets: of the same class and fields where it is one of ours, of name, message and code where it is foreign. */
  error(error: unknown): Error
}

/** Secrets shorter than this would tear holes into ordinary text; they are left to the shapes and to sensitive names. */
export const SHORTEST = 6

/** `secrets` is asked at each use, so that keys which become known later are taken out too. */
export function redactor(secrets: () => readonly string[] = () => []): Redactor {
  refuseUnlessFit('redactor', { secrets }, { secrets: method })
  let known: readonly string[] = []
  let pattern: RegExp | undefined

  const configured = (): RegExp | undefined => {
    const now = secrets()
    if (isAll(known, [now])) return pattern
    known = [...now]
    pattern = patternOf(now)
    return pattern
  }
  const text = (value: string): string => {
    if (typeof value !== 'string') throw notText(value)
    if (value.length < SHORTEST) return value
    const own = configured()
    return withoutShapes(own === undefined ? value : value.replace(own, REDACTED))
  }
  const json = <T extends Json>(value: T): T => walk(value, text) as T

  return { text, json, error: (error) => redactedError(error, text, json, 0) }
}

/** The secrets of several lists: the same list for as long as they are the same. */
export function gathered(lists: () => readonly (readonly string[])[]): () => readonly string[] {
  let all: readonly string[] = []
  return () => {
    const now = lists()
    if (!isAll(all, now)) all = now.flat()
    return all
  }
}

/** One by one: whoever gave a list may have added to it since. */
function isAll(known: readonly string[], lists: readonly (readonly string[])[]): boolean {
  let at = 0
  for (const list of lists) for (const secret of list) if (secret !== known[at++]) return false
  return at === known.length
}

const notText = (value: unknown) =>
  new InvalidInput('text', [{ path: '', rule: 'type', message: 'must be text', found: shown(value) }])

const patternOf = (secrets: readonly string[]): RegExp | undefined => {
  const given = secrets.filter((secret) => typeof secret === 'string') // a variable that is not set must not uncover the others
  const trimmed = given.map((secret) => secret.trim()) // a line end behind a key is not sent along
  const longestFirst = trimmed.filter((secret) => secret.length >= SHORTEST).sort((a, b) => b.length - a.length)
  if (longestFirst.length === 0) return undefined
  return new RegExp([...new Set(longestFirst.flatMap(formsOf).map(spelled))].join('|'), 'g')
}

/** A secret travels in disguise too, as in a Basic header behind a user's name. The longer of two that begin alike comes first. */
function formsOf(secret: string): string[] {
  const base64 = [
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    ...[0, 1, 2].map((at) => within(secret, at)),
  ]
  return [secret, ...base64, ...base64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))]
}

/** As a pattern for however it is written in a URL, in a form, or in JSON text, also in JSON within JSON: some escape more of it than they must. */
const spelled = (form: string): string => form.replace(/\\+|[^\w\\]/gu, waysOf)

function waysOf(part: string): string {
  const { length } = part
  // Of a run as one: many bounds beside each other, and a text of backslashes alone would take for ever.
  if (part.startsWith('\\')) return String.raw`(?:\\{${length},${4 * length}}|(?:%5[cC]){${length}})`
  const inJson = JSON.stringify(part).slice(1, -1)
  return `(?:${[
    String.raw`\\{0,3}${literal(part)}`,
    percent(part),
    String.raw`\\{1,3}${Array.from({ length }, (_, i) => unicode(part.charCodeAt(i))).join(String.raw`\\{1,3}`)}`,
    ...(/^\\[a-z]$/.test(inJson) ? [String.raw`\\{1,3}${inJson.slice(1)}`] : []),
    ...(part === ' ' ? [String.raw`\+`] : []),
  ].join('|')})`
}

const literal = (part: string): string => part.replace(/[.*+?^${}()|[\]\\/-]/, '\\$&')
const percent = (part: string): string =>
  [...Buffer.from(part)].map((byte) => `%${inHex(byte.toString(16).padStart(2, '0'))}`).join('')
const unicode = (unit: number): string => `u${inHex(unit.toString(16).padStart(4, '0'))}`
const inHex = (digits: string): string => digits.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)

/** Base64 of something longer in which the secret begins so many bytes behind a group of three, without the characters that others share in. */
function within(secret: string, behind: number): string {
  const bytes = Buffer.concat([Buffer.alloc(behind), Buffer.from(secret)])
  const shared = behind === 0 ? 0 : behind + 1
  return bytes.toString('base64').replace(/.=+$/, '').slice(shared)
}

/** Each begins where a word begins and repeats one class of characters: no text makes them slow. */
const TOKENS = new RegExp(
  [
    String.raw`-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,-]*?-----END [A-Z ]{0,20}PRIVATE KEY-----|[A-Za-z0-9+/=\s:,-]*)`,
    String.raw`(?<![\w-])[sr]k[-_](?=[\w-]{0,99}\d)[\w-]{16,}`, // OpenAI, Anthropic, Stripe; a digit, or sk-learn-something would be one
    String.raw`(?<![\w-])AIza[\w-]{30,}`, // Google
    String.raw`(?<![\w-])ya29\.[\w-]{20,}`,
    String.raw`(?<!\w)(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)`, // Amazon
    String.raw`(?<!\w)(?:gh[pousr]_|github_pat_)\w{20,}`,
    String.raw`(?<![\w-])glpat-[\w-]{20,}`,
    String.raw`(?<![\w-])xox[a-z]-[\w-]{10,}`, // Slack
    String.raw`(?<!\w)(?:npm|hf)_[A-Za-z0-9]{30,}`,
    String.raw`(?<![\w-])SG\.[\w-]{16,}\.[\w-]{16,}`, // SendGrid
    String.raw`(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*`, // JSON web tokens
  ].join('|'),
  'g',
)
const AUTHORIZATION = /(\bauthorization["']?\s*[:=]\s*["']?(?:[A-Za-z]+ )?)[^\s"',;]{6,}/gi
const BEARER = /(\bbearer )(?=[\w.~+/-]{0,99}\d)[\w.~+/-]{12,}=*/gi
const IN_URL = /(:\/\/)[^\s/?#@:"'\\]{0,256}:[^\s/?#"'\\]{1,256}(?=@)/g // a password may hold an @
const IN_QUERY =
  /([?&](?:key|api_?key|token|access_token|sig|signature|password|secret|x-amz-signature)=)[^&\s#"'\\]{1,2048}/gi
/** Nearly every text has none of these, and is spared the rest. */
const MAYBE =
  /PRIVATE KEY|[sr]k[-_]|AIza|ya29|AKIA|ASIA|gh[pousr]_|github_pat|glpat|xox|npm_|hf_|SG\.|eyJ|bearer |authorization|:\/\/|[?&][\w-]+=/i

const withoutShapes = (text: string): string =>
  MAYBE.test(text)
    ? text
        .replace(TOKENS, REDACTED)
        .replace(AUTHORIZATION, `$1${REDACTED}`)
        .replace(BEARER, `$1${REDACTED}`)
        .replace(IN_URL, `$1${REDACTED}`)
        .replace(IN_QUERY, `$1${REDACTED}`)
    : text

/** Fields whose text is a secret whatever it looks like. */
const SENSITIVE =
  /^(?:(?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?api[-_]?key|apikey|pass(?:word|wd|phrase)|secret|client[-_]?secret|(?:access|refresh|id|auth)[-_]?token|private[-_]?key|secret[-_]?(?:access[-_]?)?key)$/i

function walk(value: Json, text: (value: string) => string): Json {
  if (typeof value === 'string') return text(value)
  if (value === null || typeof value !== 'object') return value
  return Array.isArray(value) ? walkArray(value, text) : walkObject(value as JsonObject, text)
}

/** What stands under a sensitive name, and in its lists; what has a name of its own there is judged by that. */
function cover(value: Json, text: (value: string) => string): Json {
  if (typeof value === 'string') return value === '' ? value : REDACTED
  return Array.isArray(value) ? walkArray(value, text, cover) : walk(value, text)
}

function walkArray(items: readonly Json[], text: (value: string) => string, cleanOf = walk): readonly Json[] {
  let changed = false
  const cleaned = items.map((item) => {
    const clean = cleanOf(item, text)
    if (clean !== item) changed = true
    return clean
  })
  return changed ? cleaned : items
}

function walkObject(object: JsonObject, text: (value: string) => string): JsonObject {
  let changed = false
  const cleaned: [string, Json][] = []
  for (const key of Object.keys(object)) {
    const item = object[key] as Json
    const cleanKey = text(key)
    const isSecret = (typeof item === 'string' || Array.isArray(item)) && SENSITIVE.test(key)
    const clean = isSecret ? cover(item, text) : walk(item, text)
    if (clean !== item || cleanKey !== key) changed = true
    cleaned.push([cleanKey, clean])
  }
  return changed ? Object.fromEntries(cleaned) : object
}

const DEEPEST_CAUSE = 5

function redactedError(thrown: unknown, text: Redactor['text'], json: Redactor['json'], depth: number): Error {
  if (!(thrown instanceof Error)) return new Error(text(typeof thrown === 'string' ? thrown : saidWithoutClass(thrown)))
  const cause =
    thrown.cause === undefined || depth >= DEEPEST_CAUSE
      ? undefined
      : redactedError(thrown.cause, text, json, depth + 1)
  const copy = copyOf(thrown, text, json, cause)
  if (typeof thrown.stack === 'string') hidden(copy, 'stack', text(thrown.stack))
  return copy
}

function copyOf(error: Error, text: Redactor['text'], json: Redactor['json'], cause: Error | undefined): Error {
  const options = cause === undefined ? {} : { cause }
  if (error instanceof ActionError) {
    const { resume } = error
    const said = { ...optionsOf(error), ...(resume !== undefined && { resume: json(resume) }), ...options }
    if (!(error instanceof ApprovalNeeded)) return new ActionError(error.code, text(error.message), said)
    const { description, arguments: args } = error.question
    return new ApprovalNeeded({ ...error.question, description: text(description), arguments: json(args) }, said)
  }
  if (error instanceof InvalidInput)
    return new InvalidInput(
      text(error.subject),
      error.problems.map((p) => cleanProblem(p, text)),
      options,
    )
  if (error instanceof MplpError && cause === undefined && text(error.message) === error.message) return error
  const copy = new Error(text(saidBy(error)), options)
  if (error instanceof MplpError) return alike(copy, error, text)
  // A foreign error may carry whole requests in its fields: its name, its message and its code are all that is kept.
  hidden(copy, 'name', error.name)
  const { code } = error as { code?: unknown }
  return typeof code === 'string' || typeof code === 'number' ? Object.assign(copy, { code }) : copy
}

/** Of the same class, with the fields that are no objects. */
function alike(copy: Error, error: MplpError, text: Redactor['text']): Error {
  const fields = Object.entries(error).filter(([, value]) => Object(value) !== value)
  const clean = fields.map(([name, value]) => [name, typeof value === 'string' ? text(value) : value])
  return Object.assign(Object.setPrototypeOf(copy, Object.getPrototypeOf(error)), Object.fromEntries(clean))
}

const cleanProblem = (problem: Problem, text: Redactor['text']): Problem => ({
  ...problem,
  path: text(problem.path),
  message: text(problem.message),
  ...(problem.found === undefined ? {} : { found: text(problem.found) }),
})

const hidden = (error: Error, key: string, value: string) =>
  Object.defineProperty(error, key, { value, configurable: true, writable: true })
