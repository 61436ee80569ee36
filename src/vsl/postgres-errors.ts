import { type MplpError, Refused, Unavailable } from '../protocol/errors.ts'

/** The server rolled the statement back for the sake of another one; sent again, it may well pass. */
export const isRolledBack = (error: unknown): boolean => ['40001', '40P01'].includes(sqlState(error))

/**
 * Nobody can say whether the statement took effect. The server answers an orderly error only for what it has rolled back; a connection that was
 * ended, by whichever side, may have been ended after the commit.
 */
export const isLost = (error: unknown): boolean => /^$|^08|^25P04|^57P|^58|^XX/.test(sqlState(error))

/** We have waited as long as we may, and the server has not even said that it gave up. As a lent client says it that has a timeout of its own. */
export const TIME_UP = 'Query read timeout'
export const isTimeUp = (error: unknown): boolean => error instanceof Error && error.message === TIME_UP

/**
 * The next connection may be better: this one leads to a standby, perhaps since a moment ago, or what was prepared by it is not there, as behind a pooler
 * that gives each statement the server connection that is free.
 */
export const isMisled = (error: unknown): boolean => ['25006', ...UNPREPARED].includes(sqlState(error))
const UNPREPARED = ['26000', '42P05']

/** An error of ours whose cause is that a value would have become null. */
export const isNullRefused = (error: unknown): boolean => error instanceof Refused && sqlState(error.cause) === '23502'

/** No such table or schema. */
export const isMissing = (error: unknown): boolean => ['42P01', '3F000'].includes(sqlState(error))

/**
 * An error of the client or the server as ours; `what` is the server. What the server said stays in `cause`: it may quote data. Rights that a store
 * which `stood` has lost may be given back to it.
 */
export function postgresError(what: string, error: unknown, stood = false): MplpError {
  const cause = { cause: error }
  const state = sqlState(error)
  const notNow = NOT_NOW[state]
  if (notNow !== undefined) return new Unavailable(what, notNow, cause)
  const never = NEVER[state]
  if (never !== undefined && stood && RIGHTS.has(state)) return new Unavailable(what, `it ${never.join('; ')}`, cause)
  if (never !== undefined) return new Refused(`${what} ${never[0]}`, never[1], cause)
  if (state !== '' && !isLost(error)) return new Refused(`${what} refused a statement`, 'see the cause', cause)
  const message = error instanceof Error ? error.message : ''
  if (message.startsWith('SASL:')) return new Refused(`${what} asks for a password`, 'put it into the URL', cause)
  if (message.includes('does not support SSL') || /^(ERR_TLS|ERR_SSL|CERT_|.*_CERT|.*_SIGNATURE)/.test(codeOf(error)))
    return new Refused(
      `${what} cannot be trusted as the server that was meant`,
      'check its certificate, and sslmode and sslrootcert in the URL',
      cause,
    )
  return new Unavailable(what, 'check host, port and TLS in the URL, and that the server runs', cause)
}

const POOLED =
  'it mixes up what was prepared; connect to the server itself, not through a pooler that shares connections'

const NOT_NOW: Readonly<Record<string, string>> = {
  '25006': 'it only lets us read; connect to the primary',
  '26000': POOLED,
  '42P05': POOLED,
  '40001': 'too many others write the same keys; try again later',
  '40P01': 'too many others write the same keys; try again later',
  '53100': 'its disk is full',
  '53200': 'it is out of memory',
  '53300': 'it has no connection left; raise max_connections or lower poolSize',
  '55P03': 'somebody holds a lock on the tables',
  '57014': 'the statement took too long; look for who holds a lock, or raise timeoutMs',
  '57P03': 'it is starting up or shutting down; try again later',
}

const NEVER: Readonly<Record<string, readonly [string, string]>> = {
  '28000': ['does not let this user in', 'check the user in the URL, and pg_hba.conf'],
  '28P01': ['does not accept the password', 'check user and password in the URL'],
  '3D000': ['has no such database', 'create it, or name another one in the URL'],
  '3F000': ['has lost the schema of the store', 'restore it from a backup'],
  '42501': ['does not let this user do what a store needs', 'grant it CREATE on the database, or own the schema'],
  '42P01': ['has lost tables of the store', 'restore them from a backup'],
}

const RIGHTS: ReadonlySet<string> = new Set(['28000', '28P01', '3D000', '42501'])

/** Five characters when the server itself has answered, else empty. */
const sqlState = (error: unknown): string =>
  error instanceof Error && 'severity' in error && typeof error.severity === 'string' ? codeOf(error) : ''

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
