import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { binary } from './install.ts'
import { freePort, type PrivateServer, privateServer } from './private-server.ts'
import { own } from './processes.ts'

const KAFKA = '3.9.1'
const FETCH_PATIENCE_MS = 240_000
/** Sixteen bytes as Kafka writes a uuid. A drawn one may begin with a dash, and its command line takes that for an option. */
const CLUSTER = Buffer.from('mplp-runtime kfk').toString('base64url')

/**
 * Apache Kafka itself: one node, broker and controller, on free loopback ports, with its files in a new folder below `parent`. `settings` are lines
 * of server.properties that add to ours or take their place.
 */
export async function startKafka(
  parent: string,
  settings: (ports: { port: number; controllerPort: number }) => string = () => '',
): Promise<PrivateServer> {
  const { java, libs } = await prepareKafka()
  const [port, controllerPort] = [await freePort(), await freePort()]
  const folder = join(parent, `kafka-${port}`)
  mkdirSync(folder)
  const config = join(folder, 'server.properties')
  writeFileSync(config, `${properties({ port, controllerPort, folder })}${settings({ port, controllerPort })}`)
  // The C1 compiler and the serial collector start fastest; the broker lives for minutes.
  const jvm = ['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', join(libs, '*')]
  const quiet = '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'

  const format = own(java, [...jvm, quiet, 'kafka.tools.StorageTool', 'format', '-t', CLUSTER, '-c', config])
  if ((await format.exited) !== 'code 0') throw new Error(`kafka's storage cannot be formatted: ${format.lastWords}`)
  const address = `127.0.0.1:${port}`
  return privateServer({
    name: 'kafka',
    url: address,
    start: () => own(java, [...jvm, quiet, 'kafka.Kafka', config], { cwd: folder, stopSignal: 'SIGKILL' }),
    ask: async () => {
      await askKafka(address)
      return KAFKA
    },
    patienceMs: 60_000,
  })
}

/** Java and Kafka's jars, installed and fetched if need be. */
export const prepareKafka = async (): Promise<{ java: string; libs: string }> => ({
  java: await binary('java'),
  libs: await kafkaLibs(),
})

/** librdkafka's mock cluster: produces, consumes and keeps offsets; no idempotent producer, no second member in a group, nothing on disk. */
export async function startMockKafka(): Promise<{ url: string; version: string }> {
  const kcat = await binary('kcat')
  const server = own(kcat, ['-C', '-E', '-b', 'x:1', '-t', '_k', '-X', 'test.mock.num.brokers=1', '-d', 'mock'])
  const url = await new Promise<string>((resolve, reject) => {
    let heard = ''
    server.process.stderr?.on('data', (chunk: Buffer) => {
      heard += chunk.toString()
      const found = /127\.0\.0\.1:\d+/.exec(heard)
      if (found) resolve(found[0])
    })
    server.exited.then((end) => reject(new Error(`kcat's mock cluster ended with ${end}: ${server.lastWords}`)))
  })
  await askKafka(url)
  return { url, version: 'of librdkafka' }
}

/** Connects and asks for the cluster's brokers. */
export async function askKafka(brokers: string): Promise<void> {
  await withAdmin(brokers, async (admin) => void (await admin.describeCluster()))
}

/** Deletes every topic whose name begins so. */
export async function forgetTopics(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(prefix))
    if (topics.length > 0) await admin.deleteTopics({ topics })
  })
}

async function withAdmin<T>(brokers: string, work: (admin: import('kafkajs').Admin) => Promise<T>): Promise<T> {
  const { Kafka, logLevel } = await import('kafkajs')
  const admin = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin()
  try {
    await admin.connect()
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

/** Kafka's jars, fetched by Maven once per user and kept outside the repository. */
async function kafkaLibs(): Promise<string> {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'mplp-runtime')
  const libs = join(cache, `kafka-${KAFKA}`)
  if (existsSync(libs)) return libs
  const maven = await binary('maven')
  process.stderr.write(`fetching Apache Kafka ${KAFKA} with Maven into ${libs} (once; about a minute, 46 MB)\n`)
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'fetching-'))
  try {
    writeFileSync(join(work, 'pom.xml'), POM)
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(work, 'libs')}`]
    const fetch = own(maven, ['-q', '-B', '-f', join(work, 'pom.xml'), ...goal])
    const impatience = setTimeout(() => fetch.signal('SIGKILL'), FETCH_PATIENCE_MS)
    const end = await fetch.exited
    clearTimeout(impatience)
    if (end !== 'code 0') throw new Error(`Maven could not fetch Kafka (${end}): ${fetch.lastWords.slice(-300)}`)
    if (!existsSync(libs)) renameSync(join(work, 'libs'), libs) // another run may have been first
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  return libs
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>mplp-runtime</groupId><artifactId>test-kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

const properties = ({ port, controllerPort, folder }: { port: number; controllerPort: number; folder: string }) => `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controllerPort}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=${join(folder, 'log')}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
`
