import type { Clock } from '../protocol/clock.ts'
import { credential } from '../protocol/credential.ts'
import { InvalidInput, MplpError, Refused, Unavailable } from '../protocol/errors.ts'
import { required } from '../protocol/required.ts'

export type SaslMechanism = 'plain' | 'scram-sha-256' | 'scram-sha-512'

export interface KafkaAddress {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly user?: string
  readonly password?: string
}

/** `kafka://user:password@host:port,host:port/topic`. Not a URL to the letter, because of the commas. */
export function kafkaAddress(url: string): KafkaAddress {
  const refuse = (message: string) =>
    new InvalidInput('the URL of a Kafka bus', [{ path: 'url', rule: 'url', message }])
  const parts = /^kafka:\/\/(?:([^:@/]+):([^@/]*)@)?([^@/?#]+)\/([^/?#]+)$/.exec(url)
  if (!parts) throw refuse('is not like kafka://host:port,host:port/topic')
  const [, user, password, hosts = '', topic = ''] = parts
  const brokers = hosts.split(',').map((host) => (/:\d+$/.test(host) ? host : `${host}:9092`))
  if (!brokers.every(isBroker)) throw refuse('names a broker that is not host:port')
  if (!/^[\w.-]{1,249}$/.test(topic)) throw refuse('names a topic that Kafka would not accept')
  return {
    brokers,
    topic,
    ...(user !== undefined && { user: credential(user, refuse), password: credential(password ?? '', refuse) }),
  }
}

const isBroker = (broker: string): boolean =>
  /^(\[[\da-f:]+\]|[\w.-]+):\d+$/i.test(broker) && Number(/\d+$/.exec(broker)![0]) <= 65_535

export function kafkajs(): typeof import('kafkajs') {
  loaded ??= resting()
  return loaded
}
let loaded: typeof import('kafkajs') | undefined

/**
 * On each connection the client looks every millisecond whether a request waits that may be sent now, at a moment that it reckons to lie in the
 * past, of which Node warns from 24 on. Whatever begins to wait has it look, so that it need not while nothing does.
 */
function resting(): typeof import('kafkajs') {
  const { prototype: queue } = required('kafkajs/src/network/requestQueue') as { readonly prototype: RequestQueue }
  const look = queue.scheduleCheckPendingRequests
  queue.scheduleCheckPendingRequests = function () {
    if (this.pending.length > 0) look.call(this)
  }
  return required('kafkajs') as typeof import('kafkajs')
}
interface RequestQueue {
  readonly pending: readonly unknown[]
  scheduleCheckPendingRequests(): void
}

/** Retries of the client: some seconds in all, then the caller decides. */
export const RETRY = { initialRetryTime: 100, maxRetryTime: 2000, retries: 5 }

export function kafkaClient(
  { brokers, user, password }: KafkaAddress,
  options: { tls: boolean; sasl: SaslMechanism },
): import('kafkajs').Kafka {
  const { Kafka, logLevel } = kafkajs()
  return new Kafka({
    clientId: 'mplp-runtime',
    brokers: [...brokers],
    ssl: options.tls,
    ...(user !== undefined && {
      sasl: { mechanism: options.sasl as 'plain', username: user, password: password ?? '' },
    }),
    connectionTimeout: 3000,
    retry: RETRY,
    logLevel: logLevel.NOTHING, // what matters is thrown, or told to onError
  })
}

/** Errors of the client as ours; `what` names the brokers. */
export function kafkaError(what: string, error: unknown): MplpError {
  if (error instanceof MplpError) return error
  if (!causes(error).some(({ name }) => name?.startsWith('KafkaJS'))) throw error // a mistake of ours
  const cause = { cause: error }
  for (const { name, type } of causes(error)) {
    if (name === 'KafkaJSSASLAuthenticationError')
      return new Refused(`${what} does not accept the credentials`, 'check user, password and SASL mechanism', cause)
    const refusal = REFUSALS[type ?? '']
    if (refusal) return new Refused(`${what} ${refusal[0]}`, refusal[1], cause)
  }
  if (isAbsentTopic(error)) return new Unavailable(what, 'it no longer has the topic; create it again', cause)
  if (isTooLarge(error)) return new Unavailable(what, 'the topic takes less at once than it did before', cause)
  return new Unavailable(what, 'check brokers, TLS and SASL, and that the cluster runs', cause)
}

/** Asks again for some seconds while the broker says that it is not ready, as it does for a topic just made. */
export async function patiently<T>(ask: () => Promise<T>, clock: Clock): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (attempt === 50 || !causes(error).some(({ retriable }) => retriable)) throw error
      await clock.sleep(100)
    }
  }
}

/** True when the broker says that the topic is not there. */
export const isAbsentTopic = (error: unknown): boolean =>
  causes(error).some(({ type }) => type === 'UNKNOWN_TOPIC_OR_PARTITION')

/** True when the broker says that this is more than the topic takes at once. */
export const isTooLarge = (error: unknown): boolean =>
  causes(error).some(({ type }) => type === 'MESSAGE_TOO_LARGE' || type === 'RECORD_LIST_TOO_LARGE')

const REFUSALS: Readonly<Record<string, readonly [string, string]>> = {
  TOPIC_AUTHORIZATION_FAILED: ['does not let this user use the topic', 'grant read, write and describe on it'],
  GROUP_AUTHORIZATION_FAILED: ['does not let this user use the group', 'grant read on groups'],
  CLUSTER_AUTHORIZATION_FAILED: ['does not let this user write without repeats', 'grant idempotent write'],
  SASL_AUTHENTICATION_FAILED: ['does not accept the credentials', 'check user and password'],
  UNSUPPORTED_SASL_MECHANISM: ['does not know that way of logging in', 'choose another SASL mechanism'],
  ILLEGAL_SASL_STATE: ['does not ask for a login at that port', 'leave user and password out, or use the other port'],
  INVALID_REPLICATION_FACTOR: ['has fewer brokers than the topic would have replicas', 'ask for fewer replicas'],
  POLICY_VIOLATION: ['has a policy against such a topic', 'create the topic by hand'],
}

interface Cause {
  readonly name?: string
  readonly type?: string
  readonly retriable?: boolean
}
function causes(error: unknown): Cause[] {
  const found: Cause[] = []
  for (let e = error; typeof e === 'object' && e !== null && found.length < 5; e = (e as { cause?: unknown }).cause)
    found.push(e)
  return found
}
