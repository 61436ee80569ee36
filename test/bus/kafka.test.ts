import { EventEmitter, once } from 'node:events'
import {
  ConfigResourceTypes,
  type EachBatchHandler,
  type ITopicConfig,
  Kafka,
  KafkaJSError,
  type KafkaMessage,
  logLevel,
  type Message,
} from 'kafkajs'
import { describe, expect, it, vi } from 'vitest'
import { type KafkaTransportOptions, kafkaTransport } from '../../src/bus/kafka.ts'
import { messageOf } from '../../src/bus/kafka-message.ts'
import type { Delivery, Source } from '../../src/bus/transport.ts'
import { manualClock, systemClock } from '../../src/protocol/clock.ts'
import {
  Closed,
  Corrupt,
  FellBehind,
  InvalidInput,
  type MplpError,
  Refused,
  TooLarge,
  Unavailable,
} from '../../src/protocol/errors.ts'
import { chunks, delivery, ids, outOfOrder, series, transportContract, until } from '../contracts/transport-contract.ts'
import { startKafka } from '../support/kafka-server.ts'
import { freePort } from '../support/private-server.ts'
import { ownFolder } from '../support/processes.ts'
import { freshTopic, itNeeds, suiteNeeds } from '../support/servers.ts'
import { comesPastItsPlace } from './past-its-place.ts'

// The mock cluster has neither the idempotent producer nor a second member of a group.
await suiteNeeds('real kafka', (brokers) =>
  transportContract(
    'kafka',
    async () => {
      const url = `kafka://${brokers}/${freshTopic()}`
      const open = () => kafkaTransport({ url, graceMs: 300, createTopic: { partitions: 3 }, onError: () => undefined })
      const listeners: Source[] = []
      const transport = await open()
      return {
        transport,
        async listener() {
          const listener = await open()
          listeners.push(listener)
          return listener
        },
        async close() {
          await Promise.all(listeners.map((listener) => listener.close()))
          await transport.close()
        },
      }
    },
    60_000,
  ),
)

describe('bus/kafka', () => {
  const itOnKafka = itNeeds('real kafka')
  const createTopic = { partitions: 4 }
  const quiet = { onError: () => undefined, graceMs: 300 }

  itOnKafka('speaks CloudEvents in binary mode, keyed by graph', async (brokers) => {
    const topic = freshTopic()
    const bus = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, createTopic: true, ...quiet })
    await bus.publish([delivery(7, { graph: 'graph-7', type: 'context_intent_received' })])
    const [message] = await rawMessages(brokers, topic, 1)
    const headers = Object.fromEntries(
      Object.entries(message?.headers ?? {}).map(([name, value]) => [name, String(value)]),
    )
    expect(headers).toMatchObject({
      ce_specversion: '1.0',
      ce_id: delivery(7).event.event_id,
      ce_type: 'mplp.intent.context_intent_received',
      ce_subject: 'graph-7',
      ce_sequence: `${delivery(7).position}/000000/7`,
      ce_planid: 'p',
      'content-type': 'application/json',
    })
    expect(String(message?.key)).toBe('graph-7')
    expect(JSON.parse(String(message?.value))).toEqual(delivery(7, { graph: 'graph-7' }).event)
    await bus.close()
  })

  itOnKafka(
    'shares partitions anew when a member joins and when one leaves, without loss and in order',
    async (brokers) => {
      const url = `kafka://${brokers}/${freshTopic()}`
      const open = () => kafkaTransport({ url, createTopic, ...quiet })
      const [bus, one, two] = [await open(), await open(), await open()]
      const got: { by: string; delivery: Delivery }[] = []
      const taking = (by: string) => (d: Delivery) => void got.push({ by, delivery: d })
      await one.subscribe({}, taking('one'), { group: 'g' })
      let published = 0
      const publishUntil = async (isEnough: () => boolean) => {
        while (!isEnough()) {
          await bus.publish(series(published + 1, published + 20, (n) => ({ graph: `graph-${n % 40}` })))
          published += 20
        }
      }
      await publishUntil(() => got.length > 100)
      const second = await two.subscribe({}, taking('two'), { group: 'g' })
      await publishUntil(() => got.filter(({ by }) => by === 'two').length > 200)
      expect(got.slice(-400).some(({ by }) => by === 'one')).toBe(true)
      await second.close()
      const before = got.length
      await publishUntil(() => got.length > before + 400)
      await until(() => new Set(ids(got.map((g) => g.delivery))).size === published)
      expect(outOfOrder(got.map((g) => g.delivery))).toEqual([])
      expect(got.slice(-100).every(({ by }) => by === 'one')).toBe(true)
      for (const end of [one, two, bus]) await end.close()
    },
    90_000,
  )

  itOnKafka(
    'refuses a topic that keeps only the newest message of each key: of each graph one event',
    async (brokers) => {
      const topic = freshTopic()
      const admin = client(brokers).admin()
      await admin.connect()
      const configEntries = [{ name: 'cleanup.policy', value: 'compact,delete' }]
      await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }] })
      const error = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, ...quiet }).catch((e) => e)
      expect(error).toBeInstanceOf(Refused)
      expect(error.message).toContain('cleanup.policy compact,delete')
      await admin.disconnect()
    },
  )

  itOnKafka('tells of what another program put on the topic, and goes on', async (brokers) => {
    const topic = freshTopic()
    const bus = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, createTopic, ...quiet })
    const errors: unknown[] = []
    const got: Delivery[] = []
    await bus.subscribe({}, (d) => void got.push(d), { onError: (e) => void errors.push(e) })
    const producer = client(brokers).producer({ createPartitioner: () => () => 0 })
    await producer.connect()
    const { event } = delivery(1)
    const headers = {
      ce_specversion: '1.0',
      ce_id: event.event_id,
      ce_source: '/',
      ce_type: 'mplp.intent.context_intent_received',
    }
    await producer.send({
      topic,
      messages: [{ value: 'hello' }, { value: null }, { value: JSON.stringify(event), headers }],
    })
    await producer.disconnect()
    await bus.publish([delivery(1)])
    await until(() => got.length === 1 && errors.length === 3)
    expect(errors).toEqual([expect.any(Corrupt), expect.any(Corrupt), expect.any(Corrupt)])
    await bus.close()
  })

  itOnKafka('refuses an absent topic with the remedy, and makes it when asked to', async (brokers) => {
    const url = `kafka://${brokers}/${freshTopic()}`
    const error = await kafkaTransport({ url }).catch((e) => e)
    expect(error).toBeInstanceOf(Refused)
    expect(error.remedy).toContain('createTopic')
    await (await kafkaTransport({ url, createTopic: true })).close()
    await (await kafkaTransport({ url })).close()
  })

  itOnKafka('refuses an event that the topic cannot carry, and carries the largest that it can', async (brokers) => {
    const url = `kafka://${brokers}/${freshTopic()}`
    const bus = await kafkaTransport({ url, createTopic: { maxBytes: 100_000 }, ...quiet })
    const filled = (n: number, size: number) => delivery(n, { event: { payload: { filling: 'x'.repeat(size) } } })
    const error = await bus.publish([filled(1, 100_000)]).catch((e) => e)
    expect(error).toBeInstanceOf(TooLarge)
    expect(error.limit).toBe(100_000)
    expect(error.message).toContain(delivery(1).event.event_id)
    const got: Delivery[] = []
    await bus.subscribe({}, (d) => void got.push(d))
    await bus.publish([...series(1, 3).map((d) => filled(d.revision, 98_900)), ...series(4, 500)])
    await until(() => got.length === 500)
    expect(ids(got)).toEqual(ids(series(1, 500)))
    await bus.close()
  })

  itOnKafka('goes by what the topic takes now, when somebody has changed that', async (brokers) => {
    const topic = freshTopic()
    const bus = await kafkaTransport({
      url: `kafka://${brokers}/${topic}`,
      createTopic: { partitions: 1, maxBytes: 100_000 },
      ...quiet,
    })
    const admin = client(brokers).admin()
    await admin.connect()
    const take = (bytes: number) => {
      const configEntries = [{ name: 'max.message.bytes', value: String(bytes) }]
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
      return admin.alterConfigs({ validateOnly: false, resources })
    }
    const filled = (n: number, size: number) => delivery(n, { event: { payload: { filling: 'x'.repeat(size) } } })
    const errors: MplpError[] = []
    const publish = (batch: readonly Delivery[]) =>
      // Again and again, as a relay does: the broker takes a moment to go by its new settings.
      vi.waitFor(
        () =>
          bus.publish(batch).catch((error) => {
            errors.push(error)
            throw error
          }),
        { timeout: 10_000, interval: 100 },
      )
    await expect(bus.publish([filled(1, 150_000)])).rejects.toThrow(TooLarge)
    await take(200_000)
    await publish([filled(1, 150_000)])
    await take(50_000)
    await publish([filled(2, 30_000), filled(3, 30_000), filled(4, 30_000)])
    expect(errors.filter(({ message }) => message.includes('TLS'))).toEqual([]) // that is not what is wrong
    expect((await rawMessages(brokers, topic, 4)).map(({ headers }) => String(headers?.ce_id))).toEqual(
      ids(series(1, 4)),
    )
    await admin.disconnect()
    await bus.close()
  })

  itOnKafka('leaves it to the broker to judge where it may not ask what the topic takes', async (brokers) => {
    const topic = freshTopic()
    const kafka = client(brokers)
    const admin = kafka.admin()
    await admin.connect()
    const take = (bytes: number) => {
      const configEntries = [{ name: 'max.message.bytes', value: String(bytes) }]
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
      return admin.alterConfigs({ validateOnly: false, resources })
    }
    const denied = () => Promise.reject(new KafkaJSError('not authorized'))
    const asked = {
      admin: () => ({ ...kafka.admin(), describeConfigs: denied }),
      producer: kafka.producer.bind(kafka),
      consumer: kafka.consumer.bind(kafka),
    }
    const bus = await kafkaTransport({
      client: asked as never,
      topic,
      createTopic: { partitions: 1, maxBytes: 100_000 },
      ...quiet,
    })
    const filled = (n: number, size: number) => delivery(n, { event: { payload: { filling: 'x'.repeat(size) } } })
    const publish = (batch: readonly Delivery[]) =>
      vi.waitFor(() => bus.publish(batch), { timeout: 10_000, interval: 20 }) // again and again, as a relay does
    await publish(series(1, 12).map(({ revision }) => filled(revision, 30_000)))
    const error = await bus.publish([filled(13, 2_000_000)]).catch((e) => e)
    expect(error).toBeInstanceOf(Refused)
    expect(error.message).toContain(delivery(13).event.event_id)
    await take(3_000_000)
    await publish([filled(13, 2_000_000)])
    const stored = (await rawMessages(brokers, topic, 13)).map(({ headers }) => String(headers?.ce_id))
    expect(new Set(stored)).toEqual(new Set(ids(series(1, 13))))
    await admin.disconnect()
    await bus.close()
  })

  itOnKafka(
    'reads a topic that was deleted and made again from its beginning, and tells both',
    async (brokers) => {
      const topic = freshTopic()
      const bus = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, createTopic: { partitions: 1 }, ...quiet })
      const admin = client(brokers).admin()
      await admin.connect()
      await bus.publish(series(1, 20))
      const errors: MplpError[] = []
      const onError = (error: unknown) => void errors.push(error as MplpError)
      const read: Delivery[][] = [[], [], []]
      const [reading, idle, grouped] = read as [Delivery[], Delivery[], Delivery[]]
      await bus.subscribe({}, (d) => void reading.push(d), { after: '', onError })
      await bus.subscribe({}, (d) => void idle.push(d), { onError }) // it has only been told where to begin
      await bus.subscribe({}, (d) => void grouped.push(d), { group: topic, onError })
      await until(() => reading.length === 20)
      await admin.deleteTopics({ topics: [topic] })
      await until(() => errors.some(({ message }) => message.includes('no longer has the topic')))
      await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true })
      await bus.publish(series(21, 30))
      await until(() => read.every((got) => ids(got).includes(delivery(30).event.event_id)))
      for (const got of read) expect(ids(got).slice(-10)).toEqual(ids(series(21, 30)))
      expect(errors.filter((error) => error instanceof Corrupt)).toHaveLength(3)
      await admin.disconnect()
      await bus.close()
    },
    120_000,
  )

  itOnKafka(
    'reads a topic that was made again from its beginning also when that holds more by then',
    async (brokers) => {
      const topic = freshTopic()
      const bus = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, createTopic: { partitions: 1 }, ...quiet })
      const errors: Error[] = []
      const got: Delivery[] = []
      await bus.subscribe({}, (d) => void got.push(d), { onError: (error) => void errors.push(error as Error) })
      await bus.publish(series(1, 5))
      await until(() => got.length === 5)
      const admin = client(brokers).admin()
      await admin.connect()
      await admin.deleteTopics({ topics: [topic] })
      await until(() => errors.some(({ message }) => message.includes('no longer has the topic')))
      const made = () => admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }).catch(() => false)
      await until(made)
      const published = () =>
        bus.publish(series(6, 20)).then(
          () => true,
          () => false,
        )
      await until(published)
      await until(() => got.at(-1)?.revision === 20)
      expect(ids(got)).toEqual(ids(series(1, 20)))
      expect(errors).toContainEqual(expect.any(Corrupt))
      await admin.disconnect()
      await bus.close()
    },
    120_000,
  )

  itOnKafka(
    'tells a group that comes back how many deliveries were removed before it read them',
    async (brokers) => {
      const topic = freshTopic()
      const bus = await kafkaTransport({ url: `kafka://${brokers}/${topic}`, createTopic: { partitions: 1 }, ...quiet })
      const errors: unknown[] = []
      const onError = (error: unknown) => void errors.push(error)
      const got: Delivery[] = []
      const join = () => bus.subscribe({}, (d) => void got.push(d), { group: topic, after: '', onError })
      const first = await join()
      await bus.publish(series(1, 10))
      await until(() => got.length === 10)
      await first.close()
      await (await join()).close()
      expect(errors).toEqual([])
      await bus.publish(series(11, 100))
      const admin = client(brokers).admin()
      await admin.connect()
      await admin.fetchTopicOffsets(topic) // or the client does not know whom to ask
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '60' }] })
      await join()
      await until(() => got.length === 50)
      expect(got[10]?.revision).toBe(61)
      expect(errors).toEqual([expect.any(FellBehind)])
      expect(String(errors[0])).toContain('50 deliveries')
      await admin.disconnect()
      await bus.close()
    },
    60_000,
  )

  itOnKafka(
    'gives who has come past their place all that follows, also from an older backup of the store',
    async (brokers) => {
      const url = `kafka://${brokers}/${freshTopic()}`
      const bus = await kafkaTransport({ url, createTopic: { partitions: 1 }, ...quiet })
      await comesPastItsPlace(bus)
      await bus.close()
    },
  )

  itOnKafka('goes on behind a place that is brought while the reader is only just beginning', async (brokers) => {
    const topic = freshTopic()
    const kafka = client(brokers)
    const admin = kafka.admin()
    let meanwhile: (() => Promise<void>) | undefined
    const fetchTopicOffsets = async (of: string) => {
      const offsets = await admin.fetchTopicOffsets(of)
      await meanwhile?.()
      meanwhile = undefined
      return offsets
    }
    const watched = {
      admin: () => ({ ...admin, fetchTopicOffsets }),
      producer: kafka.producer.bind(kafka),
      consumer: kafka.consumer.bind(kafka),
    }
    const bus = await kafkaTransport({
      client: watched as never,
      topic,
      createTopic: { partitions: 1 },
      ...quiet,
    })
    await bus.publish(series(1, 5))
    meanwhile = () => bus.publish(series(6, 8))
    const got: number[] = []
    await bus.subscribe({}, (d) => void got.push(d.revision), { after: delivery(6) })
    await until(() => got.length === 2)
    expect(got).toEqual([7, 8])
    meanwhile = () => bus.publish(series(9, 10))
    const late = await bus.subscribe({}, () => undefined, { after: delivery(11) })
    expect(await late.ended).toBeInstanceOf(InvalidInput)
    await bus.close()
  })

  itOnKafka('takes a client, and leaves it to its owner', async (brokers) => {
    const topic = freshTopic()
    const kafka = client(brokers)
    const bus = await kafkaTransport({ client: kafka, topic, createTopic, ...quiet })
    const got: Delivery[] = []
    await bus.subscribe({}, (d) => void got.push(d))
    await bus.publish([delivery(1)])
    await until(() => got.length === 1)
    await bus.close()
    const admin = kafka.admin()
    await admin.connect()
    // What a subscriber of its own needed is gone with it.
    expect((await admin.listGroups()).groups.filter(({ groupId }) => groupId.startsWith(topic))).toEqual([])
    await admin.disconnect()
  })

  itOnKafka(
    'loses nothing over a restart of the broker in the middle of 10,000 events',
    async () => {
      const server = await startKafka(ownFolder('private'))
      const url = `kafka://${server.url}/events`
      const bus = await kafkaTransport({ url, createTopic, ...quiet })
      const listener = await kafkaTransport({ url, ...quiet })
      const [alone, grouped]: [Delivery[], Delivery[]] = [[], []]
      await listener.subscribe({}, (d) => void alone.push(d))
      await listener.subscribe({}, (d) => void grouped.push(d), { group: 'g' })
      const all = series(1, 10_000, (n) => ({ graph: `graph-${n % 50}` }))
      let refused = 0
      for (const [i, batch] of chunks(all, 100).entries()) {
        const restarted = i === 50 ? server.kill().then(() => server.restart()) : undefined
        for (;;) {
          const error = await bus.publish(batch).catch((e) => e)
          if (!error) break
          expect(error).toBeInstanceOf(Unavailable)
          refused++
          await systemClock.sleep(50)
        }
        await restarted
      }
      for (const got of [alone, grouped]) {
        await until(() => new Set(ids(got)).size === all.length)
        expect(outOfOrder(got)).toEqual([])
      }
      expect(refused).toBeGreaterThan(0)
      await listener.close()
      await bus.close()
      await server.stop()
    },
    180_000,
  )

  itOnKafka(
    'refuses wrong credentials, and lets right ones in',
    async () => {
      const saslPort = await freePort()
      const server = await startKafka(ownFolder('private'), (ports) => saslListener({ ...ports, saslPort }))
      const open = (credentials: string, options: Partial<KafkaTransportOptions> = {}) =>
        kafkaTransport({ url: `kafka://${credentials}@127.0.0.1:${saslPort}/events`, createTopic, ...options })
      const wrong = [() => open('alice:wrong'), () => open('alice:secret', { sasl: 'scram-sha-256' })]
      for (const attempt of wrong) {
        const error = await attempt().catch((e) => e)
        expect(error).toBeInstanceOf(Refused)
        expect(error.message).not.toContain('secret')
      }
      const bus = await open('alice:secret')
      await bus.publish([delivery(1)])
      await bus.close()
      await server.stop()
    },
    120_000,
  )

  itOnKafka('rests while nothing is to be sent, and asks for no timer in the past', async (brokers) => {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    const bus = await kafkaTransport({ url: `kafka://${brokers}/${freshTopic()}`, createTopic, ...quiet })
    await bus.publish(series(1, 20))
    expect(timers.mock.calls.filter(([, ms]) => Number(ms) < 0)).toEqual([])
    timers.mockRestore()
    await bus.close()
  })

  it('says that nobody answers', { timeout: 60_000 }, async () => {
    await expect(kafkaTransport({ url: 'kafka://127.0.0.1:1/topic' })).rejects.toThrow(Unavailable)
  })

  it('waits until the broker knows of the topic that was just made', async () => {
    const clock = manualClock()
    const unknown = Object.assign(new Error('no such topic'), {
      name: 'KafkaJSProtocolError',
      type: 'UNKNOWN_TOPIC_OR_PARTITION',
      retriable: true,
    })
    const made: string[] = []
    let asked = 0
    const admin = {
      connect: async () => undefined,
      disconnect: async () => undefined,
      fetchTopicMetadata: async () => {
        if (++asked < 20) throw unknown
      },
      createTopics: async ({ topics, waitForLeaders = true }: { topics: ITopicConfig[]; waitForLeaders?: boolean }) => {
        made.push(...topics.map(({ topic }) => topic))
        if (waitForLeaders) throw unknown // it asks the broker, and takes its first answer
        return true
      },
      describeConfigs: async () => undefined,
    }
    const client = { admin: () => admin, producer: () => undefined, consumer: () => undefined }
    const opening = kafkaTransport({ client: client as never, topic: 'events', createTopic: true, clock })
    const elapsing = setInterval(() => void clock.advance(100), 0)
    const bus = await opening.finally(() => clearInterval(elapsing))
    expect(made).toEqual(['events'])
    await bus.close()
  })

  it('lets go of a producer that was still connecting when the bus was closed, and sends nothing', async () => {
    const told: string[] = []
    const tell = (what: string) => async () => void told.push(what)
    const broker = new EventEmitter()
    const connect = async () => {
      broker.emit('asked')
      await once(broker, 'answers')
    }
    const admin = { connect: tell('admin'), fetchTopicMetadata: tell('topic'), disconnect: tell('admin gone') }
    const client = {
      admin: () => ({ ...admin, describeConfigs: async () => undefined }),
      producer: () => ({ connect, send: tell('sent'), disconnect: tell('producer gone') }),
      consumer: () => undefined,
    }
    const bus = await kafkaTransport({ client: client as never, topic: 'events' })
    const asked = once(broker, 'asked')
    const publishing = bus.publish([delivery(1)])
    await asked
    await bus.close()
    broker.emit('answers')
    await expect(publishing).rejects.toThrow(Closed)
    expect(told).toEqual(['admin', 'topic', 'admin gone', 'producer gone'])
  })

  it('sends one batch at a time with one producer, also when a relay did not wait for the one before', async () => {
    const nothing = async () => undefined
    const told: string[] = []
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    const send = async ({ messages }: { messages: Message[] }) => {
      told.push(`begins ${messages.length}`)
      await turn()
      told.push(`ends ${messages.length}`)
    }
    const client = {
      admin: () => ({ connect: nothing, disconnect: nothing, fetchTopicMetadata: nothing, describeConfigs: nothing }),
      producer: () => ({ connect: turn, send, disconnect: async () => void told.push('producer gone') }),
      consumer: () => undefined,
    }
    const bus = await kafkaTransport({ client: client as never, topic: 'events' })
    await Promise.all([bus.publish(series(1, 2)), bus.publish(series(1, 3)), bus.publish([delivery(4)])])
    await bus.close()
    expect(told).toEqual(['begins 2', 'ends 2', 'begins 3', 'ends 3', 'begins 1', 'ends 1', 'producer gone'])
  })

  it('takes a broker that names the limit of a topic without a value for one that may not be asked', async () => {
    const nothing = async () => undefined
    const sent: string[] = []
    const send = async ({ messages }: { messages: Message[] }) =>
      void sent.push(...messages.map(({ headers }) => String(headers?.ce_id)))
    const configEntries = [{ configName: 'max.message.bytes', configValue: null }]
    const describeConfigs = async () => ({ resources: [{ configEntries }] })
    const client = {
      admin: () => ({ connect: nothing, disconnect: nothing, fetchTopicMetadata: nothing, describeConfigs }),
      producer: () => ({ connect: nothing, disconnect: nothing, send }),
      consumer: () => undefined,
    }
    const bus = await kafkaTransport({ client: client as never, topic: 'events' })
    await bus.publish(series(1, 2))
    expect(sent).toEqual(ids(series(1, 2)))
    await bus.close()
  })

  it('does not send again what stands before an event that the broker does not take', async () => {
    const nothing = async () => undefined
    const sent: string[] = []
    let takes = 1_000_000
    const send = async ({ messages }: { messages: Message[] }) => {
      if (messages.some(({ value }) => value!.length > takes))
        throw Object.assign(new KafkaJSError('no'), { type: 'MESSAGE_TOO_LARGE' })
      sent.push(...messages.map(({ headers }) => String(headers?.ce_id)))
    }
    const client = {
      admin: () => ({ connect: nothing, disconnect: nothing, fetchTopicMetadata: nothing, describeConfigs: nothing }),
      producer: () => ({ connect: nothing, disconnect: nothing, send }),
      consumer: () => undefined,
    }
    const bus = await kafkaTransport({ client: client as never, topic: 'events' })
    const large = delivery(3, { event: { payload: { filling: 'x'.repeat(2_000_000) } } })
    const batch = [...series(1, 2), large, delivery(4)]
    for (let i = 0; i < 3; i++) await expect(bus.publish(batch)).rejects.toThrow(Refused)
    takes = 3_000_000
    await bus.publish(batch)
    expect(sent).toEqual(ids(batch))
    await bus.publish(batch)
    expect(sent).toEqual(ids([...batch, ...batch]))
    await bus.close()
  })

  it('tells the broker that it lives as long as a handler takes, also while the group waits for it', async () => {
    const clock = manualClock()
    const nothing = async () => undefined
    const heard = new EventEmitter()
    let eachBatch: EachBatchHandler = nothing
    const consumer = {
      events: { GROUP_JOIN: 'join', CRASH: 'crash' },
      on: heard.on.bind(heard),
      connect: nothing,
      subscribe: nothing,
      run: async (given: { eachBatch: EachBatchHandler }) => {
        eachBatch = given.eachBatch
      },
      disconnect: nothing,
    }
    const admin = {
      ...{ connect: nothing, disconnect: nothing, fetchTopicMetadata: nothing, describeConfigs: nothing },
      fetchTopicOffsets: async () => [],
      fetchOffsets: async () => [{ partitions: [{ partition: 0, offset: '0' }] }],
    }
    const client = { admin: () => admin, producer: () => undefined, consumer: () => consumer }
    const bus = await kafkaTransport({ client: client as never, topic: 'events', clock })
    let finish: () => void = () => undefined
    await bus.subscribe({}, () => new Promise<void>((resolve) => (finish = resolve)), { group: 'g' })
    const rebalance = Object.assign(new KafkaJSError('rebalance'), { type: 'REBALANCE_IN_PROGRESS' })
    let beats = 0
    const { value, headers } = messageOf(delivery(1))
    const handling = eachBatch({
      batch: { partition: 0, highWatermark: '1', messages: [{ offset: '0', value, headers }] },
      resolveOffset: () => undefined,
      commitOffsetsIfNecessary: nothing,
      isRunning: () => true,
      isStale: () => false,
      heartbeat: async () => {
        beats++
        throw rebalance
      },
    } as never)
    for (let i = 0; i < 10; i++) await clock.advance(3000)
    expect(beats).toBe(10)
    finish()
    await expect(handling).rejects.toBe(rebalance)
    await bus.close()
  })

  it('tells that the brokers are away once a minute, however often its reader begins again', async () => {
    const clock = manualClock()
    const nothing = async () => undefined
    const heard = new EventEmitter()
    const consumer = {
      events: { GROUP_JOIN: 'join', CRASH: 'crash' },
      on: heard.on.bind(heard),
      connect: nothing,
      subscribe: nothing,
      run: nothing,
      disconnect: nothing,
    }
    const admin = {
      ...{ connect: nothing, disconnect: nothing, fetchTopicMetadata: nothing, describeConfigs: nothing },
      fetchTopicOffsets: async () => [],
      deleteGroups: nothing,
    }
    const client = { admin: () => admin, producer: () => undefined, consumer: () => consumer }
    const errors: unknown[] = []
    const onError = (error: unknown) => void errors.push(error)
    const bus = await kafkaTransport({ client: client as never, topic: 'events', clock, onError })
    await bus.subscribe({}, () => undefined)
    const crash = () => heard.emit('crash', { payload: { error: new KafkaJSError('gone'), restart: true } })
    for (let i = 0; i < 3; i++) crash()
    expect(errors).toEqual([expect.any(Unavailable)])
    await clock.advance(60_000)
    crash()
    expect(errors).toHaveLength(2)
    await bus.close()
  })

  it.each<[string, KafkaTransportOptions, string]>([
    ['no address', {}, 'url'],
    ['a URL of another kind', { url: 'http://localhost/t' }, 'url'],
    ['a URL without a topic', { url: 'kafka://localhost:9092' }, 'url'],
    ['a topic with a space', { url: 'kafka://localhost:9092/a b' }, 'url'],
    ['a password with a % that begins nothing', { url: 'kafka://user:50%@localhost:9092/topic' }, 'url'],
    ['a broker without a host', { url: 'kafka://:9092/t' }, 'url'],
    ['a topic beside a URL', { url: 'kafka://localhost/t', topic: 't' }, 'topic'],
    [
      'a topic without partitions',
      { url: 'kafka://localhost/t', createTopic: { partitions: 0 } },
      'createTopic.partitions',
    ],
    ['a topic made with nothing', { url: 'kafka://localhost/t', createTopic: null as never }, 'createTopic'],
    ['a topic made by a word', { url: 'kafka://localhost/t', createTopic: 'no' as never }, 'createTopic'],
    ['a client that is none', { client: {} as never, topic: 't' }, 'client'],
    ['an unknown mechanism', { url: 'kafka://localhost/t', sasl: 'magic' as 'plain' }, 'sasl'],
  ])('refuses %s', async (_, options, path) => {
    const error = await kafkaTransport(options).catch((e: MplpError) => e)
    expect(error).toBeInstanceOf(InvalidInput)
    expect((error as InvalidInput).problems[0]?.path).toBe(path)
  })
})

const client = (brokers: string) => new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING })

async function rawMessages(brokers: string, topic: string, count: number) {
  const consumer = client(brokers).consumer({ groupId: `${topic}-raw` })
  const messages: KafkaMessage[] = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => void messages.push(message) })
  await until(() => messages.length >= count)
  await consumer.disconnect()
  return messages
}

/** A second door to the broker, for those who log in. */
const saslListener = ({ port, controllerPort, saslPort }: Record<'port' | 'controllerPort' | 'saslPort', number>) => `
listeners=PLAINTEXT://127.0.0.1:${port},USERS://127.0.0.1:${saslPort},CONTROLLER://127.0.0.1:${controllerPort}
advertised.listeners=PLAINTEXT://127.0.0.1:${port},USERS://127.0.0.1:${saslPort}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.users.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";
`
