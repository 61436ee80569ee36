import type { Admin, Kafka, Message, Producer } from 'kafkajs'
import { type Clock, systemClock } from '../protocol/clock.ts'
import { Closed, InvalidInput, type MplpError, type Problem, Refused, TooLarge } from '../protocol/errors.ts'
import { count, type Field, type Fields, flag, having, oneOf, text } from '../protocol/fields.ts'
import { isObject } from '../protocol/json.ts'
import { checkMember } from './check-options.ts'
import { checkBatch } from './delivery.ts'
import {
  isAbsentTopic,
  isTooLarge,
  kafkaAddress,
  kafkaClient,
  kafkaError,
  kafkajs,
  patiently,
  RETRY,
  type SaslMechanism,
} from './kafka-link.ts'
import { messageOf, sizeOf } from './kafka-message.ts'
import { readTopic } from './kafka-reader.ts'
import { type SourceOptions, source } from './source.ts'
import type { Delivery, Transport } from './transport.ts'

export type { SaslMechanism } from './kafka-link.ts'

export interface KafkaTransportOptions extends SourceOptions {
  /** `kafka://user:password@host:port,host:port/topic`. Either this, or a client and a topic. */
  readonly url?: string
  /** Stays yours: only what it makes for us is closed. */
  readonly client?: Kafka
  readonly topic?: string
  readonly tls?: boolean
  /** How the URL's user logs in. Default plain. */
  readonly sasl?: SaslMechanism
  /** Makes the topic if it is not there; otherwise an absent topic is refused. More partitions later would tear graphs apart: choose well. */
  readonly createTopic?: boolean | CreateTopic
}

export interface CreateTopic {
  /** How many members of a group can share at most. Default 6. */
  readonly partitions?: number
  /** Default 1. */
  readonly replicas?: number
  /** Default: the broker's own. */
  readonly keepMs?: number
  /** The largest event. Default 8 MiB. */
  readonly maxBytes?: number
}

/**
 * One topic, keyed by graph. The producer is idempotent, so that the client's own retries repeat nothing. Positions mean nothing to Kafka: `after`
 * reads the topic from its beginning and passes over what is not wanted.
 */
export async function kafkaTransport(options: KafkaTransportOptions): Promise<Transport> {
  checkOptions(options)
  const { clock = systemClock, tls = false, sasl = 'plain' } = options
  const address = options.url === undefined ? undefined : kafkaAddress(options.url)
  const topic = address?.topic ?? (options.topic as string)
  const what = address ? `Kafka at ${address.brokers.join(',')}` : 'Kafka'
  const kafka = options.client ?? kafkaClient(address as NonNullable<typeof address>, { tls, sasl })
  const admin = kafka.admin({ retry: RETRY })
  let maxBytes: number | undefined
  let assumedBytes = BROKER_DEFAULT_BYTES // where it may not be asked what the topic takes
  try {
    await admin.connect()
    await findTopic(admin, topic, what, options.createTopic ?? false, clock)
    maxBytes = await largestMessage(admin, topic)
    await checkCleanup(admin, topic, what)
  } catch (error) {
    await admin.disconnect()
    throw kafkaError(what, error)
  }

  const traits = {
    retains: true,
    durable: true,
    processes: 'many',
    groups: { inOrder: true, remembered: true },
  } as const
  const feed = (feeding: Parameters<typeof readTopic>[1]) =>
    readTopic({ kafka, admin, topic, what, maxBytes: maxBytes ?? assumedBytes, clock }, feeding).catch((error) => {
      throw kafkaError(what, error)
    })
  const listening = source('the Kafka bus', traits, feed, options)
  /** Of batches that failed midway: a relay tries until all of one is through, and what had been taken would be added every time. */
  const taken = new WeakSet<Delivery>()
  let producer: Producer | undefined
  let before: Promise<void> = Promise.resolve()
  let closing: Promise<void> | undefined

  const connected = async (): Promise<Producer> => {
    if (producer) return producer
    const { Partitioners } = kafkajs()
    const made = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      createPartitioner: Partitioners.DefaultPartitioner,
      retry: RETRY,
    })
    await made.connect()
    producer = made
    if (closing) throw new Closed('the Kafka bus') // whoever closed it could not know of this one
    return made
  }

  const fitting = async (messages: readonly Message[]): Promise<Message[][]> => {
    try {
      return portions(messages, maxBytes, assumedBytes)
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error
      maxBytes = await largestMessage(admin, topic) // by now somebody may have raised it, as they were told to
      return portions(messages, maxBytes, assumedBytes)
    }
  }
  /** The next attempt is in smaller portions, and says what is wrong if there can be none. */
  const tooMuch = async ([message, ...others]: readonly Message[], error: unknown): Promise<MplpError> => {
    maxBytes = await largestMessage(admin, topic)
    if (maxBytes !== undefined) return kafkaError(what, error)
    if (others.length === 0) return new Refused(`${what} does not take ${nameOf(message!)}`, RAISE, { cause: error })
    assumedBytes /= 2
    return kafkaError(what, error)
  }

  const send = async (batch: readonly Delivery[]): Promise<void> => {
    if (closing) throw new Closed('the Kafka bus')
    const left = batch.filter((delivery) => !taken.has(delivery))
    let sent = 0
    for (const messages of await fitting(left.map(messageOf))) {
      try {
        await (await connected()).send({ topic, messages, acks: -1 })
        sent += messages.length
      } catch (error) {
        for (const delivery of left.slice(0, sent)) taken.add(delivery)
        // After a failure its sequence numbers may not be the broker's any more: the next attempt is a new producer's.
        void producer?.disconnect().catch(() => undefined)
        producer = undefined
        const ours = isTooLarge(error) ? await tooMuch(messages, error) : kafkaError(what, error)
        throw closing ? new Closed('the Kafka bus') : ours
      }
    }
    if (left.length < batch.length) for (const delivery of batch) taken.delete(delivery)
  }

  return {
    ...listening,
    async publish(batch) {
      if (closing) throw new Closed('the Kafka bus')
      checkBatch(batch)
      // A relay that has lost its lease waits for nothing, and may have it again before this is through. Side by side, each would make a producer, and
      // let go of the other's.
      const sending = before.then(() => send(batch))
      before = sending.catch(() => undefined)
      return sending
    },
    close() {
      closing ??= listening.close().then(async () => {
        await producer?.disconnect()
        await admin.disconnect()
      })
      return closing
    },
  }
}

async function findTopic(
  admin: Admin,
  topic: string,
  what: string,
  create: boolean | CreateTopic,
  clock: Clock,
): Promise<void> {
  const look = () => admin.fetchTopicMetadata({ topics: [topic] })
  try {
    await look()
    return
  } catch (error) {
    if (!isAbsentTopic(error)) throw error
    if (!create)
      throw new Refused(`${what} has no topic ${topic}`, 'create it, or open the bus with createTopic', {
        cause: error,
      })
  }
  const {
    partitions = 6,
    replicas = 1,
    keepMs,
    maxBytes = 8 * 1024 * 1024,
  } = create === true ? {} : (create as CreateTopic)
  const configEntries = [
    { name: 'max.message.bytes', value: String(maxBytes) },
    { name: 'cleanup.policy', value: 'delete' }, // the broker's own may compact
    ...(keepMs === undefined ? [] : [{ name: 'retention.ms', value: String(keepMs) }]),
  ]
  await admin.createTopics({
    topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }],
    waitForLeaders: false, // the client would give up at once on a broker that has not heard of the topic yet
    timeout: MAKING_MS,
  })
  await patiently(look, clock)
}

/** On a busy cluster it takes longer than the five seconds that the client would give it. */
const MAKING_MS = 20_000

const BROKER_DEFAULT_BYTES = 1_048_588

/** What the topic allows for one batch of messages; `undefined` where that may not be asked. */
const largestMessage = async (admin: Admin, topic: string): Promise<number | undefined> =>
  Number(await settingOf(admin, topic, 'max.message.bytes')) || undefined

/** Refuses a topic that throws events away. */
async function checkCleanup(admin: Admin, topic: string, what: string): Promise<void> {
  const policy = await settingOf(admin, topic, 'cleanup.policy')
  if (policy?.includes('compact'))
    throw new Refused(
      `${what} keeps only the newest event of each graph in ${topic} (cleanup.policy ${policy})`,
      'set the cleanup.policy of the topic to delete, or use another topic',
    )
}

async function settingOf(admin: Admin, topic: string, name: string): Promise<string | undefined> {
  const { ConfigResourceTypes } = kafkajs()
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
  const described = await admin.describeConfigs({ resources, includeSynonyms: false }).catch(() => undefined)
  return described?.resources[0]?.configEntries.find((config) => config.configName === name)?.configValue
}

/**
 * The batch in portions that the broker accepts: what goes to one partition at once counts as one message. What is larger than is only assumed to be
 * accepted goes alone, for the broker to judge.
 */
function portions(messages: readonly Message[], maxBytes: number | undefined, assumedBytes: number): Message[][] {
  const portion: Message[][] = []
  let room = 0
  for (const message of messages) {
    const bytes = sizeOf(message)
    if (maxBytes !== undefined && bytes > maxBytes) throw new TooLarge(nameOf(message), bytes, maxBytes, RAISE)
    if (bytes > room) {
      portion.push([])
      room = (maxBytes ?? assumedBytes) - BATCH_OVERHEAD
    }
    portion.at(-1)?.push(message)
    room -= bytes
  }
  return portion
}

const BATCH_OVERHEAD = 100

const RAISE = "raise the topic's max.message.bytes: all that was committed after it waits for it"

const nameOf = ({ key, headers }: Message): string => `the event ${headers?.ce_id} of graph ${key}`

function checkOptions(options: KafkaTransportOptions): void {
  const { url, client, topic, createTopic } = { ...options }
  checkMember('the Kafka bus', options, isObject(createTopic) ? { ...OWN, createTopic: NEW_TOPIC } : OWN)
  const problems: Problem[] = []
  if ((url === undefined) === (client === undefined))
    problems.push({ path: 'url', rule: 'one_of', message: 'or a client must be given, and not both' })
  if ((client === undefined) !== (topic === undefined))
    problems.push({
      path: 'topic',
      rule: 'with_client',
      message: 'is given with a client, and only then: a URL has its own',
    })
  if (problems.length > 0) throw new InvalidInput('the Kafka bus', problems)
}

const NEW_TOPIC: { readonly [O in keyof Required<CreateTopic>]: Field } = {
  partitions: count,
  replicas: count,
  keepMs: count,
  maxBytes: count,
}
const OWN: Fields = {
  url: { ...text, secret: true }, // it may hold a password
  client: having('a client of kafkajs', 'admin', 'consumer', 'producer'),
  topic: text,
  tls: flag,
  sasl: oneOf('plain', 'scram-sha-256', 'scram-sha-512'),
  createTopic: { ...flag, says: 'true, false, or what the topic is made with' },
}
