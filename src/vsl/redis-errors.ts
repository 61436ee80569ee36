import { causeOf } from '../protocol/cause.ts'
import { Corrupt, type MplpError, Refused, Unavailable } from '../protocol/errors.ts'
import { isReply, replyCode } from '../protocol/redis-reply.ts'

/** The command never left: there was no connection, and the client's queue for that is switched off. */
export const isUnsent = (error: unknown): boolean =>
  error instanceof Error && error.message === "Stream isn't writeable and enableOfflineQueue options is false"

/** The node of the cluster that has the store now; it leaves its host away when that is the same. */
export function movedTo(error: unknown): { host?: string; port: number } | undefined {
  const moved = isReply(error) ? /^MOVED \d+ (.*):(\d+)$/.exec(error.message) : null
  if (!moved) return undefined
  return { ...(moved[1] && { host: moved[1] }), port: Number(moved[2]) }
}

/** Errors of the client and error replies as ours; `what` is the server. Rights that a store which `stood` has lost may be given back to it. */
export function redisError(what: string, error: unknown, stood = false): MplpError {
  const cause = { cause: causeOf(error) }
  const code = replyCode(error)
  const notNow = NOT_NOW[code]
  if (notNow !== undefined) return new Unavailable(what, notNow, cause)
  const never = NEVER[code]
  if (never !== undefined && stood && RIGHTS.has(code)) return new Unavailable(what, `it ${never.join('; ')}`, cause)
  if (never !== undefined) return new Refused(`${what} ${never[0]}`, never[1], cause)
  if (code === 'WRONGTYPE')
    return new Corrupt(
      `the store in ${what}`,
      'something else has written to its keys; give it a prefix of its own',
      cause,
    )
  if (isReply(error)) return new Refused(`${what} refused a command`, 'see the cause for its reason', cause)
  if (error instanceof Error && error.message.startsWith('Unknown RESP type'))
    return new Refused(`what answers as ${what} is not Redis`, 'check host and port in the URL', cause)
  if (/^(ERR_TLS|ERR_SSL|CERT_|.*_CERT|.*_SIGNATURE)/.test(systemCode(error)))
    return new Refused(
      `${what} cannot be trusted as the server that was meant`,
      'check its certificate, and that rediss:// is used where the server speaks TLS and only there',
      cause,
    )
  return new Unavailable(what, 'check host, port and TLS in the URL, and that the server runs', cause)
}

const NOT_NOW: Readonly<Record<string, string>> = {
  ASK: 'its cluster is moving the store to another node; try again later',
  BUSY: 'it is busy with a script; try again later',
  CLUSTERDOWN: 'its cluster is down; look at CLUSTER INFO',
  LOADING: 'it is still loading its data; try again later',
  MASTERDOWN: 'it is a replica without its master; connect to the master',
  MISCONF: 'it cannot write to its disk; look at its log',
  NOREPLICAS: 'it has fewer replicas than min-replicas-to-write; bring them back',
  OOM: 'its memory is full; raise maxmemory or remove what else is kept there',
  READONLY: 'it is a replica; connect to the master',
  TRYAGAIN: 'its cluster is moving slots; try again later',
}

const NEVER: Readonly<Record<string, readonly [string, string]>> = {
  WRONGPASS: ['does not accept the password', 'check user name and password in the URL'],
  NOAUTH: ['asks for a password', 'put user name and password into the URL'],
  NOPERM: ['does not let this user do what a store needs', 'give the user @all on the keys and channel of the prefix'],
  CROSSSLOT: ['is a cluster, and the prefix spreads over it', 'use a prefix without braces'],
}

const RIGHTS: ReadonlySet<string> = new Set(['WRONGPASS', 'NOAUTH', 'NOPERM'])

const systemCode = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
